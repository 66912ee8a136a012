// The places that a training state can be fetched from.
#ifndef COMERA_WORKER_CHECKPOINT_STATE_SOURCE_H_
#define COMERA_WORKER_CHECKPOINT_STATE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/checkpoint/call_watch.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// One place that may have one training state.
class StateSource {
 public:
  // Receives bytes with the size of the whole, 0 if that is unknown.
  using OnPart =
      std::function<absl::Status(int64_t size, std::string_view data)>;

  virtual ~StateSource() = default;
  // The words by which messages name it, e.g. "worker w2".
  virtual std::string name() const = 0;
  // Passes the file's bytes from `offset` on to `part`, in order; OK at the end
  // of the file. NotFound, InvalidArgument, PermissionDenied, Unimplemented,
  // FailedPrecondition: it does not have the state and will not have it.
  // OutOfRange: `offset` lies behind the end of what it has. Other errors may
  // pass, or are those of `part`.
  virtual absl::Status Read(int64_t offset, const TransferLimits& limits,
                            const OnPart& part) = 0;
};

// A copy in this worker's memory; `memory` must outlive the source.
std::unique_ptr<StateSource> MemorySource(const ReplicaCache* memory,
                                          std::string job, const StateKey& key);
// Another worker; `peers` must outlive the source.
std::unique_ptr<StateSource> PeerSource(PeerClient* peers, const v1::Peer& peer,
                                        std::string job, const StateKey& key);
// The store that all workers share; `store` must outlive the source.
std::unique_ptr<StateSource> StoreSource(ArtifactStore* store, std::string job,
                                         const StateKey& key);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_STATE_SOURCE_H_
