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

// A `comera-trainer --serve` as a child: takes lines, answers lines. It is
// killed at destruction, and by the kernel when the thread that started it
// ends.
//
// Not thread-safe.
class ModelChild {
 public:
  // `environment`: KEY=VALUE, beside what ranks get. `stopped` ends all waiting
  // soon after it is set; null: nothing does. Errors of StartChild.
  static absl::StatusOr<std::unique_ptr<ModelChild>> Start(
      const std::vector<std::string>& command,
      const std::vector<std::string>& environment,
      const ChildConfinement& confinement,
      const std::atomic<bool>* stopped = nullptr);
  ~ModelChild();

  // FailedPrecondition: it ended; the message is what it said last. Cancelled:
  // `stopped` was set. DeadlineExceeded; ResourceExhausted: it says too much.
  // After any of them it is of no more use.
  absl::Status Send(const std::string& line, absl::Time deadline);
  absl::StatusOr<std::string> Receive(absl::Time deadline);

 private:
  ModelChild() = default;
  // Takes what it said on standard error.
  void DrainStderr();
  // Waits for `fd`, taking errors meanwhile.
  absl::Status Await(int fd, short events, absl::Time deadline);
  absl::Status End();

  const std::atomic<bool>* stopped_ = nullptr;
  ChildProcess child_;
  int input_ = -1;
  std::string received_, errors_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_MODEL_CHILD_H_
