// Appends to a job's event file and keeps its position for the next export.

#include "client/export/tensorboard_run.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/artifact_file.h"
#include "client/export/tensorboard_events.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

// The number of events collected for one write when a long history is exported.
constexpr int kMostPending = 4096;

}  // namespace

std::string TensorBoardRun::StatePath() const {
  return absl::StrCat(folder_, "/comera_export.json");
}

absl::Status TensorBoardRun::ReadState(std::string* file, int64_t* bytes) {
  const absl::StatusOr<std::string> text = ReadFile(StatePath());
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  const auto state = ParseJson(*text);
  const auto damaged = [&] {
    return absl::DataLossError(absl::StrCat(
        StatePath(), " is damaged; delete the folder to export anew"));
  };
  if (!state.is_object() || !state.contains("job") ||
      !state["job"].is_string() || !state.contains("file") ||
      !state["file"].is_string()) {
    return damaged();
  }
  for (const char* number : {"bytes", "last_sequence"}) {
    if (!state.contains(number) || !state[number].is_number_unsigned()) {
      return damaged();
    }
  }
  if (state["job"] != job_) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder_, " holds the export of another job, ",
                     state["job"].get<std::string>()));
  }
  *file = state["file"].get<std::string>();
  *bytes = state["bytes"].get<int64_t>();
  if (!IsPlainFileName(*file) || *bytes < 0) return damaged();
  last_sequence_ = state["last_sequence"].get<int64_t>();
  finished_ = state.value("finished", nlohmann::json(false)) == true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TensorBoardRun>> TensorBoardRun::Open(
    const std::string& folder, const v1::Job& job,
    const std::string& job_file) {
  RETURN_IF_ERROR(MakeDirectories(folder));
  std::unique_ptr<TensorBoardRun> run(new TensorBoardRun(folder, job.name()));
  // TensorBoard reads files with `tfevents` in their name, in the order of
  // names.
  run->file_name_ = absl::StrFormat("events.out.tfevents.%010d.comera",
                                    job.create_time().seconds());
  int64_t bytes = 0;
  RETURN_IF_ERROR(run->ReadState(&run->file_name_, &bytes));
  ASSIGN_OR_RETURN(
      run->file_,
      RecordFile::Open(absl::StrCat(folder, "/", run->file_name_), bytes));
  if (bytes == 0) {
    for (const auto& event : BeginningOf(job, job_file)) {
      run->file_->Append(event.SerializeAsString());
    }
    RETURN_IF_ERROR(run->Flush());
  }
  return run;
}

absl::Status TensorBoardRun::Add(const v1::JobEvent& event) {
  if (event.sequence() > 0 && event.sequence() <= last_sequence_) {
    return absl::OkStatus();
  }
  for (const auto& one : EventsOf(event)) {
    file_->Append(one.SerializeAsString());
  }
  if (event.sequence() > 0) last_sequence_ = event.sequence();
  return ++pending_ >= kMostPending ? Flush() : absl::OkStatus();
}

absl::Status TensorBoardRun::Flush() {
  RETURN_IF_ERROR(file_->Flush());
  pending_ = 0;
  const nlohmann::ordered_json state = {{"job", job_},
                                        {"file", file_name_},
                                        {"bytes", file_->size()},
                                        {"last_sequence", last_sequence_},
                                        {"finished", finished_}};
  return WriteFileAtomically(StatePath(), JsonText(state) + "\n");
}

absl::Status TensorBoardRun::Finish(const v1::Job& job) {
  if (!finished_) {
    for (const auto& event : EndOf(job)) {
      file_->Append(event.SerializeAsString());
    }
    finished_ = true;
  }
  return Flush();
}

}  // namespace comera::client
