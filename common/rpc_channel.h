// Channels to the coordinator: TLS, certificates and tokens.
#ifndef COMERA_COMMON_RPC_CHANNEL_H_
#define COMERA_COMMON_RPC_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace comera {

// How a client or worker shows who it is, and knows the coordinator.
struct ChannelSecurity {
  // PEM file with the authorities that may sign the coordinator's certificate,
  // or "system" for those of this machine. Empty: no TLS.
  std::string ca_file;
  // PEM files with this side's certificate and key, where the coordinator asks
  // for one. Certificates and authorities are read again when they change.
  std::string certificate_file;
  std::string key_file;
  // A token, or the file that holds one; read again when it changes.
  std::string token;
  std::string token_file;
  // Send the token although the way to the coordinator can be listened to.
  bool insecure_token = false;
};

// A channel to the coordinator at `address`, or to the leader of several
// (coordinator_address.h), whose calls all carry the token.
//
// Errors of CoordinatorTarget; InvalidArgument: files that do not belong
// together, no token in the file, or one that is malformed. NotFound,
// PermissionDenied: a file cannot be read. FailedPrecondition: a token would
// travel in the clear beyond this machine.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& address, const ChannelSecurity& security,
    const grpc::ChannelArguments& arguments);

}  // namespace comera

#endif  // COMERA_COMMON_RPC_CHANNEL_H_
