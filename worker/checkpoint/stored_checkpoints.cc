// Names and lists the checkpoints in the shared store.

#include "worker/checkpoint/stored_checkpoints.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::worker {
namespace {

constexpr char kFolder[] = "checkpoints";

}  // namespace

std::string StoredCheckpointsFolder(const std::string& job) {
  return absl::StrCat(kFolder, "/", job.substr(job.rfind('/') + 1));
}

std::string StoredCheckpointPath(const std::string& job,
                                 const CheckpointName& name) {
  return absl::StrCat(StoredCheckpointsFolder(job), "/", ToFileName(name));
}

absl::StatusOr<std::vector<CheckpointName>> ListStored(
    ArtifactStore* store, const std::string& job,
    const std::atomic<bool>& abandoned) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   store->List(StoredCheckpointsFolder(job), abandoned));
  std::vector<CheckpointName> names;
  for (const std::string& file : files) {
    if (const auto name = ParseCheckpointName(file)) names.push_back(*name);
  }
  return names;
}

absl::StatusOr<StoredStates> ListAllStored(ArtifactStore* store,
                                           const std::atomic<bool>& abandoned) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   store->List(kFolder, abandoned));
  StoredStates states;
  for (const std::string& file : files) {
    const size_t slash = file.find('/');
    if (slash == std::string::npos) continue;
    const std::string job = absl::StrCat("jobs/", file.substr(0, slash));
    const auto name = ParseCheckpointName(file.substr(slash + 1));
    // The coordinator refuses a report with other names.
    if (name && ParseJobName(job)) states[job].insert(name->key());
  }
  return states;
}

absl::Status TidyStored(ArtifactStore* store, absl::Duration age,
                        const std::atomic<bool>& abandoned) {
  return store->Tidy(kFolder, age, abandoned);
}

}  // namespace comera::worker
