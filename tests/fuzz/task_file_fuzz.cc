// Fuzzes task files, which tell a member's process what to do: what is accepted
// is within bounds, and a task that was filled in is accepted again.
#include <string>

#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/process/task_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::FuzzFailure;
  comera::FuzzInput input(data, size);
  const auto task = comera::trainer::ParseTask(input.Rest());
  if (!task.ok()) {
    if (!absl::IsInvalidArgument(task.status()) ||
        task.status().message().empty()) {
      FuzzFailure("not an error of the task's: " + task.status().ToString());
    }
    return 0;
  }
  if (task->rank() < 0 || task->rank() >= task->world_size() ||
      task->local_rank() < 0 ||
      task->local_rank() >= task->local_world_size() || task->threads() < 0 ||
      task->attempt() < 0 || task->work_dir().empty()) {
    FuzzFailure("a member that cannot be");
  }
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(*task, &json).ok()) {
    FuzzFailure("a task that cannot be written");
  }
  const auto again = comera::trainer::ParseTask(json);
  if (!again.ok()) {
    FuzzFailure("a task that is refused when read again: " +
                again.status().ToString());
  }
  if (!google::protobuf::util::MessageDifferencer::Equals(*again, *task)) {
    FuzzFailure("a task that is another one when read again");
  }
  return 0;
}
