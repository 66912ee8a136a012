#ifndef COMERA_SERVER_STORE_LEADER_LEASE_H_
#define COMERA_SERVER_STORE_LEADER_LEASE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/lease_store.h"

namespace comera::server {

// Decides which of several coordinators on one database leads.
//
// The leader holds a lease that it renews all the time, and only while its
// event loop turns: a leader that is stopped, stuck, or cut off from the
// database loses the lease, whatever its connections look like. Another one may
// lead once the lease has run out by the database's clock. The leader measures
// the lease with its own monotonic clock, from before it asked for it, and
// takes it to be over a fifth earlier, so it stops before its successor
// begins. PostgresJobStore writes only under the newest term, and workers
// believe only the newest; both hold also where a clock misleads.
//
//   while (!*lease.TryAcquire()) wait;
//   // Lead under lease.term(), and meanwhile, several times per length:
//   loop.Post([&] { lease.Beat(); });
//   if (!lease.Renew().ok()) stop;
//   // before each answer:
//   if (!lease.Holds()) refuse;
//
// Thread-safe. Holds() and Beat() do not wait for the database.
class LeaderLease {
 public:
  struct Options {
    // How long a leader may be silent before another one leads.
    absl::Duration length = absl::Seconds(5);
    // Must go on while the machine sleeps, never back.
    std::function<absl::Time()> now = BootTime;
  };

  // `address`: what other coordinators tell clients about this one.
  LeaderLease(std::unique_ptr<LeaseStore> store, std::string address,
              const Options& options);
  // Gives the leadership up.
  ~LeaderLease();

  // Whether this coordinator leads now. Errors of LeaseStore.
  absl::StatusOr<bool> TryAcquire();
  // Asks for more time, if there was a Beat() since it was last asked for. OK:
  // the leadership goes on, though the database may not have answered this
  // time. FailedPrecondition: it is over.
  absl::Status Renew();
  // Ends the leadership, once nothing is answered any more; others may lead at
  // once.
  void GiveUp();

  // The event loop turns.
  void Beat() { beaten_ = true; }
  // Whether answers may be given.
  bool Holds() const;
  // The term of the leadership acquired; 0: none.
  int64_t term() const { return term_; }
  // What the present leadership shows those who may pass calls on.
  std::string secret() const;
  // The last leadership, as the database knew it when TryAcquire() was called.
  LeaseRow last_row() const;

  // The time since the machine started, asleep or not.
  static absl::Time BootTime();

 private:
  void SetEnd(absl::Time sent);

  const std::string address_;
  const Options options_;
  std::atomic<int64_t> term_{0};
  // The time until which answers may be given, in nanoseconds of the clock.
  std::atomic<int64_t> end_{0};
  std::atomic<bool> beaten_{false};

  // Held while the database is asked.
  std::mutex store_mutex_;
  const std::unique_ptr<LeaseStore> store_ ABSL_GUARDED_BY(store_mutex_);
  mutable std::mutex mutex_;
  LeaseRow row_ ABSL_GUARDED_BY(mutex_);
  std::string secret_ ABSL_GUARDED_BY(mutex_);
  // The time at which the row was first seen as it is, by this coordinator's
  // clock.
  absl::Time unchanged_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_LEADER_LEASE_H_
