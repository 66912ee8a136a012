// Lists the checkpoints in the shared store, and decides which may go.

#include "worker/checkpoint/stored_checkpoints.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr char kFolder[] = "checkpoints";
constexpr char kEnded[] = "ended";

}  // namespace

std::string StoredCheckpointsFolder(const std::string& job) {
  return absl::StrCat(kFolder, "/", job.substr(job.rfind('/') + 1));
}

absl::Status MarkEndedInStore(ArtifactStore* store, const std::string& job) {
  const std::string folder = StoredCheckpointsFolder(job);
  ASSIGN_OR_RETURN(const std::vector<std::string> files, store->List(folder));
  if (files.empty() ||
      std::find(files.begin(), files.end(), kEnded) != files.end()) {
    return absl::OkStatus();
  }
  return store->Put(absl::StrCat(folder, "/", kEnded), "");
}

absl::StatusOr<std::vector<StoredCheckpoint>> ListNewestStored(
    ArtifactStore* store) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                   store->List(kFolder));
  std::vector<StoredCheckpoint> found;
  for (const std::string& folder : folders) {
    const std::string job = absl::StrCat("jobs/", folder);
    // What is no folder is not looked into.
    const auto files = store->List(absl::StrCat(kFolder, "/", folder));
    if (!files.ok()) continue;
    std::optional<CheckpointName> newest;
    bool ended = false;
    for (const std::string& file : *files) {
      ended = ended || file == kEnded;
      const auto name = ParseCheckpointName(file);
      if (name && (!newest || IsOlder(*newest, *name))) newest = name;
    }
    if (newest && !ended) found.push_back({job, *newest});
  }
  return found;
}

absl::Status ExpireStoredCheckpoints(ArtifactStore* store, absl::Duration age) {
  ASSIGN_OR_RETURN(const std::vector<StoredCheckpoint> newest,
                   ListNewestStored(store));
  std::set<std::string> spared;
  for (const StoredCheckpoint& stored : newest) {
    spared.insert(absl::StrCat(StoredCheckpointsFolder(stored.job), "/",
                               ToFileName(stored.name)));
  }
  return store->Expire(kFolder, age, spared);
}

}  // namespace comera::worker
