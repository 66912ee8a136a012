// The checkpoints in the store that all workers share.
#ifndef COMERA_WORKER_CHECKPOINT_STORED_CHECKPOINTS_H_
#define COMERA_WORKER_CHECKPOINT_STORED_CHECKPOINTS_H_

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// The folder of the store that holds a job's checkpoints; `job` is `jobs/<id>`.
std::string StoredCheckpointsFolder(const std::string& job);

// The job's checkpoint in the store.
std::string StoredCheckpointPath(const std::string& job,
                                 const CheckpointName& name);

// The checkpoints of one job in the store. Errors are those of the store.
absl::StatusOr<std::vector<CheckpointName>> ListStored(
    ArtifactStore* store, const std::string& job,
    const std::atomic<bool>& abandoned);

// All checkpoints in the store, by job. Errors are those of the store.
using StoredStates = std::map<std::string, std::set<StateKey>>;
absl::StatusOr<StoredStates> ListAllStored(ArtifactStore* store,
                                           const std::atomic<bool>& abandoned);

// Removes what copies that were cut short have left in the store `age` ago.
// Errors are those of the store.
absl::Status TidyStored(ArtifactStore* store, absl::Duration age,
                        const std::atomic<bool>& abandoned);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_STORED_CHECKPOINTS_H_
