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

// Where a job goes on, and why it cannot go on from something newer.
struct FetchedCheckpoint {
  // -1: there is no checkpoint anywhere.
  int64_t step = -1;
  // A worker, "the store", "this memory" or "this disk".
  std::string from;
};

// Brings the newest whole training state that this disk, this worker's memory,
// the assignment's sources or the store have into `folder`, within `timeout`;
// one that is damaged or out of reach is passed over. `store` may be null.
FetchedCheckpoint FetchNewestCheckpoint(const v1::MemberAssignment& assignment,
                                        const std::string& folder,
                                        absl::Duration timeout,
                                        const ReplicaCache& memory,
                                        PeerClient* peers,
                                        ArtifactStore* store);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_FETCHER_H_
