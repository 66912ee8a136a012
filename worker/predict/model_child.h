#ifndef COMERA_WORKER_PREDICT_MODEL_CHILD_H_
#define COMERA_WORKER_PREDICT_MODEL_CHILD_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/gang/child_process.h"

namespace comera::worker {

// A `comera-trainer --serve` child process, which answers each line with a
// line. It is killed at destruction, and by the kernel when the thread that
// started it ends.
//
// Not thread-safe.
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
  // Cancelled: `stopped` was set. DeadlineExceeded. ResourceExhausted: a line
  // is too long. After any error the child is of no more use.
  absl::Status Send(const std::string& line, absl::Time deadline);
  absl::StatusOr<std::string> Receive(absl::Time deadline);

 private:
  ModelChild() = default;
  // Collects what it wrote on standard error.
  void DrainStderr();
  // Waits for `fd`, and collects standard error meanwhile.
  absl::Status Await(int fd, short events, absl::Time deadline);
  absl::Status End();

  const std::atomic<bool>* stopped_ = nullptr;
  ChildProcess child_;
  int input_ = -1;
  std::string received_, errors_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_MODEL_CHILD_H_
