#ifndef COMERA_SERVER_STORE_POSTGRES_LEADERSHIP_H_
#define COMERA_SERVER_STORE_POSTGRES_LEADERSHIP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/leader_lease.h"
#include "server/store/lease_store.h"
#include "server/store/postgres_connection.h"

namespace comera::server {

// The lease row in a PostgreSQL database, in a session of its own: a long
// commit of the leader's does not keep it from renewing.
class PostgresLease : public LeaseStore {
 public:
  // Every call ends within about `timeout`.
  PostgresLease(const std::string& url, absl::Duration timeout);

  absl::StatusOr<LeaseRow> Read() override;
  absl::StatusOr<int64_t> Take(const LeaseRow& row, const std::string& address,
                               const std::string& secret, absl::Duration length,
                               bool although_unexpired) override;
  absl::StatusOr<bool> Renew(int64_t term, absl::Duration length) override;
  absl::Status GiveBack(int64_t term) override;

 private:
  PostgresConnection connection_;
  bool migrated_ = false;
};

// A LeaderLease in a PostgreSQL database.
class PostgresLeadership : public LeaderLease {
 public:
  PostgresLeadership(const std::string& url, const std::string& address,
                     const Options& options = Options());
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_LEADERSHIP_H_
