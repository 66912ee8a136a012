// Reads and checks a task file.
#include "worker/trainer/process/task_file.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"

namespace comera::trainer {
namespace {

constexpr size_t kMaxTaskBytes = size_t{16} << 20;
constexpr int kMaxRanks = 1 << 16;
// The largest number that the name of a checkpoint's file can hold.
constexpr int64_t kMaxNamed = 999'999'999'999;

absl::Status CheckRank(absl::string_view field, int rank, int world_size) {
  if (rank >= 0 && rank < world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", rank, " of ", world_size));
}

absl::Status CheckNamed(absl::string_view field, int64_t number) {
  if (number >= 0 && number <= kMaxNamed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", number));
}

}  // namespace

absl::StatusOr<TrainerTask> ParseTask(const std::string& json) {
  if (json.size() > kMaxTaskBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("task of ", json.size(), " bytes"));
  }
  TrainerTask task;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &task);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a trainer task: ", std::string(parsed.message())));
  }
  const std::vector<FieldViolation> violations = ValidateJobSpec(task.spec());
  if (!violations.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(
        violations, "; ", [](std::string* out, const FieldViolation& v) {
          absl::StrAppend(out, "spec.", v.field, ": ", v.description);
        }));
  }
  *task.mutable_spec() = WithDefaults(task.spec());
  if (task.job().empty()) task.set_job("local");
  if (task.world_size() == 0) task.set_world_size(1);
  if (task.local_world_size() == 0) task.set_local_world_size(1);
  if (task.world_size() < 0 || task.world_size() > kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("world_size: ", task.world_size()));
  }
  RETURN_IF_ERROR(CheckRank("rank", task.rank(), task.world_size()));
  RETURN_IF_ERROR(
      CheckRank("local_rank", task.local_rank(), task.local_world_size()));
  RETURN_IF_ERROR(CheckNamed("attempt", task.attempt()));
  RETURN_IF_ERROR(CheckNamed("start.attempt", task.start().attempt()));
  RETURN_IF_ERROR(CheckNamed("start.step", task.start().step()));
  if (task.has_start() && !task.resume()) {
    return absl::InvalidArgumentError("start: set, and resume is not");
  }
  if (task.threads() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: ", task.threads()));
  }
  if (task.work_dir().empty()) {
    return absl::InvalidArgumentError("work_dir: not set");
  }
  if (task.world_size() > 1 && task.rendezvous_dir().empty()) {
    return absl::InvalidArgumentError(
        "rendezvous_dir: not set, and world_size is more than 1");
  }
  return task;
}

absl::StatusOr<TrainerTask> ReadTaskFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  absl::StatusOr<TrainerTask> task = ParseTask(json);
  if (task.ok()) return task;
  return absl::Status(task.status().code(),
                      absl::StrCat(path, ": ", task.status().message()));
}

}  // namespace comera::trainer
