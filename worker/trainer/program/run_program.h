#ifndef COMERA_WORKER_TRAINER_PROGRAM_RUN_PROGRAM_H_
#define COMERA_WORKER_TRAINER_PROGRAM_RUN_PROGRAM_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/process/event_writer.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

// Runs the program of a task that has one, from its start to its end: tells it
// where it is (ProgramEnvironment), passes on what it reports (ProgramEvents)
// and its checkpoints (ProgramCheckpoints), and asks it to end by SIGTERM when
// `stop` becomes true or the worker asks to finish. It is OK too when the
// program ended because it was asked to. `device` is its device, for people.
// Errors carry their class (failure.h).
absl::Status RunProgram(const TrainerTask& task, const std::string& device,
                        const std::atomic<bool>& stop, const EventSink& events,
                        Activity& activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_RUN_PROGRAM_H_
