// Where the coordinators are, as one gRPC target.
#ifndef COMERA_COMMON_COORDINATOR_ADDRESS_H_
#define COMERA_COMMON_COORDINATOR_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/support/channel_arguments.h"

namespace comera {

// Name under which the gRPC health service of a coordinator tells whether it
// leads.
inline constexpr char kLeaderHealth[] = "comera.v1.Leader";

// The gRPC target for `servers`: one target as it is, or several host:port with
// commas in between. For several, `arguments` are changed so that the channel
// sends each call to the one that leads, and to the next leader when that
// changes: it holds a connection to each and watches its health service.
// Always so that it leaves within 15 seconds, while a call is under way, a
// connection whose other end vanished without a word.
// Likewise for `dns:///name:port` if the name has several addresses. Blocks on
// the resolver. InvalidArgument: malformed; Unavailable: a name is unknown.
absl::StatusOr<std::string> CoordinatorTarget(
    const std::string& servers, grpc::ChannelArguments* arguments);

}  // namespace comera

#endif  // COMERA_COMMON_COORDINATOR_ADDRESS_H_
