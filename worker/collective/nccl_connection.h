// The life of one NCCL communicator: formed, watched, ended.
#ifndef COMERA_WORKER_COLLECTIVE_NCCL_CONNECTION_H_
#define COMERA_WORKER_COLLECTIVE_NCCL_CONNECTION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/collective/nccl_api.h"
#include "worker/collective/nccl_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {

// A collective is begun, enqueued in one or more parts, and over when its last
// part is. The first error stays, and ends NCCL's communicator at once.
//
// Life cycle: Connect forms the gang; destruction leaves it. Thread safety:
// Begin, Enqueue and Wait on one thread; the others on any.
class NcclConnection {
 public:
  static absl::StatusOr<std::unique_ptr<NcclConnection>> Connect(
      const NcclOptions& options, std::shared_ptr<Rendezvous> rendezvous);
  ~NcclConnection();

  // The first error, if there was one.
  absl::Status error() const;
  // Ends all with `error`, and returns the first.
  absl::Status Refuse(absl::Status error);
  // Begins `count` collectives, whose time starts now.
  absl::Status Begin(int64_t count = 1);
  // Calls `calls`, which enqueues on `stream`; what is enqueued there by then
  // is watched until it is done. `last`: with it what was begun is over.
  // Returns a ticket for Wait.
  absl::StatusOr<int64_t> Enqueue(
      const std::function<absl::Status(NcclApi::Comm)>& calls,
      NcclApi::Stream stream, bool last);
  // The same for what is recorded in a graph: nothing runs, nothing is watched,
  // and an error ends nothing, so that the caller can do without the graph.
  absl::Status Record(const std::function<absl::Status(NcclApi::Comm)>& calls);
  absl::Status Wait(int64_t ticket);
  // Waits until NCCL has accepted a call within `calls`.
  absl::Status AwaitAccepted(NcclApi::Comm comm, NcclResult result,
                             const char* call);

  void Abort();
  int64_t collectives_done() const { return done_; }

 private:
  // What is enqueued up to an event.
  struct Part {
    int64_t ticket = 0;
    int64_t collective = 0;  // its number, from 1
    bool last = false;
    NcclApi::Event event = nullptr;
    absl::Time deadline;
  };

  NcclConnection(const NcclOptions& options,
                 std::shared_ptr<Rendezvous> rendezvous)
      : options_(options),
        api_(*options.api),
        rendezvous_(std::move(rendezvous)) {}

  absl::Status Form();
  absl::Status AwaitFormed(NcclApi::Comm comm, absl::Time deadline);
  // Calls `calls` unless there is an error.
  absl::Status Call(const std::function<absl::Status(NcclApi::Comm)>& calls);
  absl::StatusOr<NcclApi::Event> IdleEvent();
  // Notes what has ended, and ends all after an error.
  void Poll();
  absl::Status CheckProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unavailable: a member left a note that it ended before `collective` was
  // over there.
  absl::Status CheckEndNote(int64_t collective);
  void Announce(absl::string_view how);
  // Ends all with `error`, unless there is one already. May return before the
  // device has let go.
  void Fail(absl::Status error) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave();
  void Watch();

  const NcclOptions options_;
  NcclApi& api_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  std::atomic<bool> aborted_{false};
  // There is an error: read by calls that last.
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> done_{0};
  // Belongs to the thread that enqueues.
  absl::Time deadline_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  NcclApi::Comm comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  // `calls` of Enqueue run, without the lock.
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t finished_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Part> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<NcclApi::Event> idle_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_note_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool aborting_ ABSL_GUARDED_BY(mutex_) = false;  // aborter_ is at it
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;   // Fail is at it
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<NcclApi::Event> events_;  // all, for the destructor
  std::thread watchdog_;
  std::thread aborter_;  // after an error; made by Fail, once
};

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_NCCL_CONNECTION_H_
