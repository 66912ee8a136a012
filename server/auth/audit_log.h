#ifndef COMERA_SERVER_AUTH_AUDIT_LOG_H_
#define COMERA_SERVER_AUTH_AUDIT_LOG_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/access_service.pb.h"
#include "common/clock.h"
#include "server/auth/rate_limit.h"
#include "server/store/job_store.h"

namespace comera::server {

// The append-only log of who did what. Thread-safe; does not block. Callbacks
// may come from the store's thread.
class AuditLog {
 public:
  using WriteDone = std::function<void(const absl::Status&)>;
  using Write = std::function<void(StoreBatch, WriteDone)>;
  // Calls its argument where the store may be read, later.
  using Read = std::function<void(std::function<void(JobStore*)>)>;
  using ListDone =
      std::function<void(absl::StatusOr<v1::ListAuditEntriesResponse>)>;

  // `clock`, and what the functions call, must outlive the object.
  AuditLog(Clock* clock, Write write, Read read)
      : clock_(clock),
        write_(std::move(write)),
        read_(std::move(read)),
        strangers_(kStrangersPerSecond, kStrangerBurst) {}

  // `done` is called once the entry is durable.
  void Record(v1::AuditEntry entry, WriteDone done);
  // Writes the entry of a call that failed. In a flood most of one user's are
  // only counted, so that nobody fills the disk by being refused. Those of
  // callers whom the server does not know have a much smaller share of their
  // own, so that they hide nobody's.
  void RecordFailure(v1::AuditEntry entry);

  // Errors of AccessService.ListAuditEntries.
  void List(const v1::ListAuditEntriesRequest& request, ListDone done);

  // The entry as the store takes it, for a batch of somebody else's.
  static AuditRow ToRow(const v1::AuditEntry& entry, absl::Time time);

 private:
  struct Listing;
  static constexpr double kFailuresPerSecond = 5;
  static constexpr double kFailureBurst = 1000;
  static constexpr double kStrangersPerSecond = 0.1;
  static constexpr double kStrangerBurst = 100;

  // What may be written of one user's failures, and what was left out.
  struct Failures {
    Failures(double per_second, double burst) : bucket(per_second, burst) {}
    TokenBucket bucket;
    int64_t suppressed = 0;
  };

  void Continue(std::shared_ptr<Listing> listing);

  Clock* const clock_;
  const Write write_;
  const Read read_;
  std::mutex mutex_;
  Failures strangers_ ABSL_GUARDED_BY(mutex_);
  // By user; as many as there are users with tokens.
  std::map<std::string, Failures> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_AUDIT_LOG_H_
