#ifndef COMERA_SERVER_STORE_POSTGRES_LEADERSHIP_H_
#define COMERA_SERVER_STORE_POSTGRES_LEADERSHIP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/postgres_connection.h"

namespace comera::server {

// Decides which of several coordinators on one database leads.
//
// The leader holds an advisory lock in a session of its own: when its process
// ends the database gives the lock back at once, when its machine vanishes
// after about five seconds. Each leadership has a term, one higher than the
// one before, stored in the database; PostgresJobStore writes only under the
// newest term, so that a coordinator which does not know yet that it was
// deposed cannot write. Not thread-safe.
//
//   PostgresLeadership leadership(url, "host:7400");
//   while (!*leadership.TryAcquire()) wait;
//   // write with PostgresJobStore::Options::term = leadership.term(),
//   // and every second:
//   if (!leadership.Check().ok()) stop writing;
class PostgresLeadership {
 public:
  struct Leader {
    // 0: there never was one.
    int64_t term = 0;
    // Where it accepts calls, as it said itself. It may be gone by now.
    std::string address;
  };

  // `address`: what other coordinators tell clients about this one.
  PostgresLeadership(const std::string& url, std::string address);
  // Gives the leadership up.
  ~PostgresLeadership();

  // Whether this coordinator leads now. Unavailable: the database.
  absl::StatusOr<bool> TryAcquire();
  // The term of the leadership acquired; 0: none.
  int64_t term() const { return term_; }
  // FailedPrecondition: another one leads; Unavailable: the session with the
  // lock broke. Either way the leadership is over.
  absl::Status Check();
  // Whoever led last.
  absl::StatusOr<Leader> ReadLeader();

 private:
  PostgresConnection connection_;
  const std::string address_;
  bool migrated_ = false;
  int64_t term_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_LEADERSHIP_H_
