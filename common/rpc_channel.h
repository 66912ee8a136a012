// Opens channels to the coordinator with TLS, certificates and tokens.
#ifndef COMERA_COMMON_RPC_CHANNEL_H_
#define COMERA_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace comera {

// How a client or worker proves who it is and verifies the coordinator.
struct ChannelSecurity {
  // A PEM file with the authorities that may sign the coordinator's
  // certificate, or "system" for those of this machine. Empty means no TLS.
  std::string ca_file;
  // PEM files with this side's certificate and key, if the coordinator asks for
  // one. Certificates and authorities are read again when they change.
  std::string certificate_file;
  std::string key_file;
  // A token, or the file that holds one; the file is read again when it
  // changes.
  std::string token;
  std::string token_file;
  // Whether to send the token even over a connection that others can listen to.
  bool insecure_token = false;
};

using ChannelInterceptors = std::vector<
    std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

// Opens a channel to the coordinator at `address`, or to the leader of several
// (coordinator_address.h). All calls on it carry the token and pass
// `interceptors`.
//
// Returns the errors of CoordinatorTarget. InvalidArgument: the files do not
// belong together, or the file has no token or a malformed one. NotFound,
// PermissionDenied: a file cannot be read. FailedPrecondition: the token would
// leave this machine unencrypted.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& address, const ChannelSecurity& security,
    const grpc::ChannelArguments& arguments,
    ChannelInterceptors interceptors = ChannelInterceptors());

}  // namespace comera

#endif  // COMERA_COMMON_RPC_CHANNEL_H_
