#ifndef COMERA_WORKER_CHECKPOINT_PEER_TLS_H_
#define COMERA_WORKER_CHECKPOINT_PEER_TLS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/rpc_channel.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {

// How workers talk to each other about checkpoints. Null: in the clear.
struct PeerTls {
  std::shared_ptr<grpc::ServerCredentials> server;
  std::shared_ptr<grpc::ChannelCredentials> client;
};

// Mutual TLS with the certificate by which this worker shows the coordinator
// who it is, where it has one and a CA file of its own: the authorities of the
// whole machine ("system") would vouch for strangers. The certificate must name
// the worker's --address. Read once. NotFound, PermissionDenied: a file.
absl::StatusOr<PeerTls> MakePeerTls(const ChannelSecurity& security);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_TLS_H_
