// Calls to other workers' PeerService.
#ifndef COMERA_WORKER_CHECKPOINT_PEER_CLIENT_H_
#define COMERA_WORKER_CHECKPOINT_PEER_CLIENT_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/peer_keys.h"

namespace comera::worker {

// Calls PeerService on other workers over one channel per address. Returns the
// errors of PeerService, or Unavailable or DeadlineExceeded if the worker
// cannot be reached. Thread-safe.
class PeerClient {
 public:
  // Without credentials (null) the channels are unencrypted. `keys` must
  // outlive this.
  PeerClient(std::shared_ptr<grpc::ChannelCredentials> credentials,
             const PeerKeys* keys);

  absl::Status Put(const std::string& address, const std::string& job,
                   const CheckpointName& name, const std::string& contents,
                   absl::Duration timeout);
  absl::StatusOr<std::vector<CheckpointName>> List(const std::string& address,
                                                   const std::string& job,
                                                   absl::Duration timeout);
  // Returns the whole file. DataLoss: it is damaged. ResourceExhausted: it is
  // larger than 4 GiB.
  absl::StatusOr<std::string> Get(const std::string& address,
                                  const std::string& job, int64_t step,
                                  absl::Duration timeout);

 private:
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);
  void Prepare(absl::Duration timeout, grpc::ClientContext* context) const;

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const PeerKeys* const keys_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_CLIENT_H_
