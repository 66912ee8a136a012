#ifndef COMERA_WORKER_CHECKPOINT_PEER_TLS_H_
#define COMERA_WORKER_CHECKPOINT_PEER_TLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc_channel.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {

// The credentials of calls between workers; null means unencrypted.
struct PeerTls {
  std::shared_ptr<grpc::ServerCredentials> server;
  std::shared_ptr<grpc::ChannelCredentials> client;
};

// Whether MakePeerTls would make some.
bool HasPeerTls(const ChannelSecurity& security);

// Makes credentials for mutual TLS from the certificate that this worker shows
// the coordinator. They are null unless there is such a certificate and a CA
// file of its own, because the machine's authorities ("system") would vouch for
// strangers. The certificate must name the worker's --address. The files are
// read once. NotFound, PermissionDenied: a file cannot be read.
absl::StatusOr<PeerTls> MakePeerTls(const ChannelSecurity& security);

// Whether training states may be sent to and served at the host, a name or an
// address without a port, unencrypted. InvalidArgument: it is another machine,
// and says how to make it work.
absl::Status CheckPlainPeers(const std::string& host);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_TLS_H_
