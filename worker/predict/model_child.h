#ifndef COMERA_WORKER_PREDICT_MODEL_CHILD_H_
#define COMERA_WORKER_PREDICT_MODEL_CHILD_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/gang/child_process.h"

namespace comera::worker {

// A `comera-trainer --serve` child process, which answers lines with lines. It
// is killed at destruction, and by the kernel when the thread that started it
// ends.
//
// One thread may Send while another Receives; any thread may Kill.
class ModelChild {
 public:
  // `environment` (KEY=VALUE) is added to what members inherit. Soon after
  // `stopped` is set, all waiting ends; it may be null. Errors of StartChild.
  static absl::StatusOr<std::unique_ptr<ModelChild>> Start(
      const std::vector<std::string>& command,
      const std::vector<std::string>& environment,
      const ChildConfinement& confinement,
      const std::atomic<bool>* stopped = nullptr);
  ~ModelChild();

  // FailedPrecondition: the process ended; the message is its last output.
  // Cancelled: `stopped` was set, or `gone`, which is asked a few times a
  // second and may be null, says that nobody waits any more. DeadlineExceeded.
  // ResourceExhausted: a line is too long. After any error the child is of no
  // more use. A deadline may be absl::InfiniteFuture().
  absl::Status Send(const std::string& line, absl::Time deadline);
  absl::StatusOr<std::string> Receive(
      absl::Time deadline, const std::function<bool()>& gone = nullptr);
  // Ends the process, and thereby what waits for it.
  void Kill();

 private:
  ModelChild() = default;
  // Collects what it wrote on standard error; returns false once that is
  // closed.
  bool DrainStderr();
  // Waits for `fd`, and collects standard error meanwhile.
  absl::Status Await(int fd, short events, absl::Time deadline,
                     const std::function<bool()>& gone);
  absl::Status End();

  const std::atomic<bool>* stopped_ = nullptr;
  ChildProcess child_;
  // A socket, so that writing to a child that has ended raises no signal.
  int input_ = -1;
  // Used by Receive only.
  std::string received_;
  std::mutex mutex_;
  std::string errors_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_MODEL_CHILD_H_
