#ifndef COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_END_H_
#define COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_END_H_

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/program/program_events.h"
#include "worker/trainer/program/program_process.h"

namespace comera::trainer {

// Says why a program ended without success, with the class of the failure
// (failure.h); OK if it ended with success. `exception` is what its output ends
// with; may be empty. `world_size` is that of its gang: a
// member whose peer is lost fails as well, and not by its own fault.
// `out_of_memory`: the kernel has killed processes for want of memory
// meanwhile.
absl::Status StatusOfProgram(const ProgramExit& exit,
                             const ProgramEvents& events,
                             const std::string& exception, int world_size,
                             bool out_of_memory);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_PROGRAM_END_H_
