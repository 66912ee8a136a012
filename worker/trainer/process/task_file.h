#ifndef COMERA_WORKER_TRAINER_PROCESS_TASK_FILE_H_
#define COMERA_WORKER_TRAINER_PROCESS_TASK_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

// Reads a task (protobuf JSON), checks it, and fills in its defaults and those
// of the spec. NotFound: no such file. InvalidArgument: not a task, or a bad
// field, which is named; all violations of the spec are listed.
absl::StatusOr<TrainerTask> ReadTaskFile(const std::string& path);
absl::StatusOr<TrainerTask> ParseTask(const std::string& json);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_TASK_FILE_H_
