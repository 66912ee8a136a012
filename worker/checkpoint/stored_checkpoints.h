// The checkpoints in the store that all workers share.
#ifndef COMERA_WORKER_CHECKPOINT_STORED_CHECKPOINTS_H_
#define COMERA_WORKER_CHECKPOINT_STORED_CHECKPOINTS_H_

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

// Notes in the store, for all workers, that the job has ended, so that all its
// checkpoints may expire. Does nothing if it has none there. Errors are those
// of the store.
absl::Status MarkEndedInStore(ArtifactStore* store, const std::string& job);

// The newest checkpoint in the store of each job that is not known to have
// ended. Errors are those of the store.
struct StoredCheckpoint {
  std::string job;  // `jobs/<id>`
  CheckpointName name;
};
absl::StatusOr<std::vector<StoredCheckpoint>> ListNewestStored(
    ArtifactStore* store);

// Deletes checkpoints that were not written for `age`, except for the newest of
// each job that is not known to have ended: a job may be paused for longer.
// Errors are those of the store.
absl::Status ExpireStoredCheckpoints(ArtifactStore* store, absl::Duration age);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_STORED_CHECKPOINTS_H_
