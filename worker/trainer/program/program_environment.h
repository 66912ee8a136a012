#ifndef COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_ENVIRONMENT_H_
#define COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

// The places through which a program and its member exchange files.
struct ProgramPlaces {
  // The pipe into which comera.torch.Run writes its events.
  std::string events;
  // The folder of the run's checkpoints.
  std::string checkpoints;
  // The folder whose files become the job's model.
  std::string model;
};

// The environment of the task's program, as KEY=VALUE: that of this process,
// what the job sets, and what the service sets (docs/programs.md), which
// replaces both. `master` is the address at which member 0 is met, host:port.
std::vector<std::string> ProgramEnvironment(const TrainerTask& task,
                                            const ProgramPlaces& places,
                                            const std::string& master,
                                            const char* const* own);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_ENVIRONMENT_H_
