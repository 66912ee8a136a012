#ifndef COMERA_WORKER_CHECKPOINT_CALL_WATCH_H_
#define COMERA_WORKER_CHECKPOINT_CALL_WATCH_H_

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace comera::worker {

// The bounds of a transfer whose length nobody knows beforehand.
struct TransferLimits {
  // The transfer is given up when nothing has moved for this long.
  absl::Duration idle = absl::Seconds(60);
  // Ends the transfer when it becomes true; may be null. Must outlive the call.
  const std::atomic<bool>* abandoned = nullptr;
};

// Cancels a call that stands still or that is abandoned, also while a read or
// write of it blocks. Runs a thread of its own from construction to
// destruction, which must come before the context's.
class CallWatch {
 public:
  CallWatch(grpc::ClientContext* context, const TransferLimits& limits);
  ~CallWatch();

  // The call has moved.
  void Touch();
  // Why the watch cancelled the call: Aborted, it was abandoned;
  // DeadlineExceeded, it stood still. Without that, `status` as it is.
  absl::Status Explain(const absl::Status& status);

 private:
  void Loop();

  grpc::ClientContext* const context_;
  const TransferLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Time moved_ ABSL_GUARDED_BY(mutex_);  // by SteadyNow
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Declared last, because it starts when everything else is in place.
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CALL_WATCH_H_
