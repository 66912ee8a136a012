// Turns the addresses of one or several coordinators into one gRPC target.
#ifndef COMERA_COMMON_COORDINATOR_ADDRESS_H_
#define COMERA_COMMON_COORDINATOR_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/support/channel_arguments.h"

namespace comera {

// The gRPC health service that a coordinator reports as serving while it is the
// leader.
inline constexpr char kLeaderHealth[] = "comera.v1.Leader";
// The trailing metadata with which the leader of several coordinators says in
// which leadership it gave an answer (worker_service.proto).
inline constexpr char kTermMetadata[] = "comera-term";
// Beside it, the name of the cluster whose leaderships are numbered so.
inline constexpr char kClusterMetadata[] = "comera-cluster";

// The gRPC target for `servers`: one target unchanged, or several host:port
// separated by commas. For several, and for a `dns:///name:port` whose name has
// several addresses, `arguments` are changed so that the channel sends each
// call to the leader, and to the next leader after a change: it holds a
// connection to each server and watches its health service. In all cases the
// channel abandons, within 15 seconds while a call is under way, a connection
// whose other end has vanished silently. Blocks on the resolver.
// InvalidArgument: malformed. Unavailable: a name is unknown.
absl::StatusOr<std::string> CoordinatorTarget(
    const std::string& servers, grpc::ChannelArguments* arguments);

}  // namespace comera

#endif  // COMERA_COMMON_COORDINATOR_ADDRESS_H_
