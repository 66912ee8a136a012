#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// The checkpoint that a job resumes from, and where it was found.
struct FetchedCheckpoint {
  // The step of the checkpoint; -1 if there is none anywhere.
  int64_t step = -1;
  // The address of a worker, "the store", "this memory" or "this disk".
  std::string from;
};

// Brings the newest whole training state to `folder`, within `timeout`. It
// looks on this disk, in this worker's memory, at the assignment's sources and
// in the store, and skips copies that are damaged or out of reach. `store` may
// be null.
FetchedCheckpoint FetchNewestCheckpoint(const v1::MemberAssignment& assignment,
                                        const std::string& folder,
                                        absl::Duration timeout,
                                        const ReplicaCache& memory,
                                        PeerClient* peers,
                                        ArtifactStore* store);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_
