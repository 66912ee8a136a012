#ifndef COMERA_WORKER_CHECKPOINT_PEER_SERVER_H_
#define COMERA_WORKER_CHECKPOINT_PEER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "worker/checkpoint/peer_keys.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {

// Serves this worker's PeerService: keeps copies of other workers' training
// states in memory, and hands them and those on its own disk to workers that
// resume a job.
//
// Serves from Start to destruction, on gRPC's threads. The open port also tells
// that this process lives: from a refused connection the coordinator concludes
// that it does not.
class PeerServer {
 public:
  struct Options {
    // The address or name at which other workers reach this one.
    std::string host = "127.0.0.1";
    // The port to listen on; 0 means any free one.
    int port = 0;
    // Null means unencrypted, which `host` beyond this machine needs `insecure`
    // for.
    std::shared_ptr<grpc::ServerCredentials> credentials;
    bool insecure = false;
    // A transfer in which nothing moves for so long is cancelled.
    absl::Duration idle = absl::Seconds(60);
    // The threads of all calls that are answered on threads of gRPC's own.
    int max_threads = 256;
    // Further services on the same port; they must outlive the server.
    std::vector<grpc::Service*> services;
  };

  // Unavailable: the address cannot be bound. InvalidArgument: CheckPlainPeers.
  // All pointers must outlive this.
  static absl::StatusOr<std::unique_ptr<PeerServer>> Start(
      const Options& options, ReplicaCache* cache, const JobFolders* folders,
      PeerKeys* keys);
  ~PeerServer();

  // The server's address, as host:port.
  const std::string& address() const { return address_; }

 private:
  class Service;

  PeerServer();

  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_SERVER_H_
