// Calls to other workers' PeerService.
#ifndef COMERA_WORKER_CHECKPOINT_PEER_CLIENT_H_
#define COMERA_WORKER_CHECKPOINT_PEER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "worker/checkpoint/call_watch.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/peer_keys.h"

namespace comera::worker {

// Calls PeerService on other workers over one channel per address. Returns the
// errors of PeerService, or Unavailable or DeadlineExceeded if the worker
// cannot be reached or stands still, or Aborted if the transfer was abandoned.
// Thread-safe.
class PeerClient {
 public:
  // Without credentials (null) the channels are unencrypted, and calls beyond
  // this machine are refused with InvalidArgument unless `insecure`. `keys`
  // must outlive this.
  PeerClient(std::shared_ptr<grpc::ChannelCredentials> credentials,
             const PeerKeys* keys, bool insecure = false);

  // Sends a whole file, of which `sha256` are the digits.
  absl::Status Put(const std::string& address, const std::string& job,
                   const CheckpointName& name, const CheckpointFile& file,
                   const std::string& sha256, const TransferLimits& limits);
  absl::StatusOr<std::vector<CheckpointName>> List(const std::string& address,
                                                   const std::string& job,
                                                   absl::Duration timeout);

  // Receives a state's bytes with the size of the whole; the first part may be
  // empty. The size is 0 if the other worker does not tell it.
  using OnPart =
      std::function<absl::Status(int64_t size, std::string_view data)>;
  // Passes the file of the state from `offset` on to `part`. The caller
  // verifies what has come. Unimplemented: the other worker is of an earlier
  // version, which knows neither attempts nor offsets. Other errors are those
  // of `part`.
  absl::Status Get(const std::string& address, const std::string& job,
                   const StateKey& key, int64_t offset,
                   const TransferLimits& limits, const OnPart& part);

 private:
  // InvalidArgument: CheckPlainPeers.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(
      const std::string& address);
  // Shows the worker there what the coordinator lets this one ask for.
  void AddGrant(const std::string& address, const std::string& job,
                grpc::ClientContext* context) const;

  // Whether nothing is sent beyond this machine.
  const bool only_here_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const PeerKeys* const keys_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_CLIENT_H_
