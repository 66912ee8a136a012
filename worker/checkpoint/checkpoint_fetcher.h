#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/checkpoint/state_fetch.h"
#include "worker/files/path_below.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// The checkpoint that a job resumes from, and where it was found.
struct FetchedCheckpoint {
  // The step of the checkpoint; -1 if there is none anywhere.
  int64_t step = -1;
  // "worker" and its name, "the store", "this memory" or "this disk".
  std::string from;
};

// Brings training states to one folder of checkpoints. The objects behind the
// pointers must outlive it; `store` may be null. Thread-compatible.
class CheckpointFetcher {
 public:
  CheckpointFetcher(const StateFetchOptions& options, PathBelow folder,
                    const ReplicaCache* memory, PeerClient* peers,
                    ArtifactStore* store, OnFetchProgress on_progress)
      : options_(options),
        folder_(std::move(folder)),
        memory_(memory),
        peers_(peers),
        store_(store),
        on_progress_(std::move(on_progress)) {}

  // Brings the state that `assignment.start` names, and no other: from this
  // disk, this worker's memory, the assignment's sources, or the store.
  // NotFound: it cannot be had, now or ever; DataLoss: all copies of it are
  // damaged. The messages name the state and, for each source, why not, in at
  // most 3000 bytes. Other errors are those of FetchState.
  absl::StatusOr<FetchedCheckpoint> FetchStart(
      const v1::MemberAssignment& assignment,
      const std::atomic<bool>& abandoned) const;

  // Brings the newest whole state that it finds in those places: an earlier
  // coordinator does not say which it wants. Copies that are damaged or out of
  // reach are skipped; there may be none. Errors are those of FetchState except
  // for NotFound.
  absl::StatusOr<FetchedCheckpoint> FetchNewest(
      const v1::MemberAssignment& assignment,
      const std::atomic<bool>& abandoned) const;

 private:
  // OK: the file is here and whole. DataLoss: it is damaged.
  absl::Status CheckOnDisk(const CheckpointName& name,
                           const std::atomic<bool>& abandoned) const;
  PathBelow PathOf(const CheckpointName& name) const;

  const StateFetchOptions options_;
  const PathBelow folder_;
  const ReplicaCache* const memory_;
  PeerClient* const peers_;
  ArtifactStore* const store_;
  const OnFetchProgress on_progress_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_
