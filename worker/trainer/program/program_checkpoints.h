#ifndef COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_CHECKPOINTS_H_
#define COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/process/task.pb.h"
#include "worker/trainer/state/checkpoint_files.h"

namespace comera::trainer {

// Carries the checkpoints of a program between the folder that it uses, which
// lasts as long as the attempt, and the job's own, whose files the worker
// copies to others. What they hold is the program's business.
class ProgramCheckpoints {
 public:
  // `folder` is the program's. The task's work_dir holds the job's checkpoints.
  ProgramCheckpoints(const TrainerTask& task, std::string folder);

  // Puts the state that the task is to resume from into the program's folder,
  // as comera.torch.Run keeps its own; nothing if there is none. `damaged` gets
  // a line for each state that was passed over.
  //
  // NotFound: the state that the task names is not here. DataLoss: it, or each
  // of those that are here, is damaged. Other errors are those of files.
  absl::Status Restore(std::vector<std::string>* damaged);

  // Takes a file that the program has saved after `step` into the job's
  // checkpoints; returns its size. InvalidArgument: it is no plain file in the
  // program's folder. ResourceExhausted: disk full.
  absl::StatusOr<int64_t> Keep(int64_t step, const std::string& path);

 private:
  absl::Status Give(int64_t step, const std::string& contents) const;

  const bool resume_;
  const bool has_start_;
  const StateKey start_;
  const std::string folder_;
  SealedStates states_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_CHECKPOINTS_H_
