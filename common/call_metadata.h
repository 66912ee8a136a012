#ifndef COMERA_COMMON_CALL_METADATA_H_
#define COMERA_COMMON_CALL_METADATA_H_

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace comera {

// The metadata with which a worker names itself in every call to the
// coordinator.
inline constexpr char kWorkerMetadata[] = "comera-worker";
// The metadata with which a caller shows a worker its ticket.
inline constexpr char kTicketMetadata[] = "comera-ticket";
// The metadata with which a worker shows another one what the coordinator lets
// it ask for, and the purpose of that grant's seal (seal.h).
inline constexpr char kPeerGrantMetadata[] = "comera-peer-grant";
inline constexpr char kPeerGrantPurpose[] = "peer";
// How tickets begin, so that they are not mistaken for tokens.
inline constexpr char kTicketPrefix[] = "comera-ticket_";

// Adds the metadata to every call of a channel.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
MakeMetadataAdder(std::string key, std::string value);

// Returns the value of a call's metadata; empty if it is missing or there are
// several.
std::string MetadataOf(const grpc::ServerContextBase& context,
                       const std::string& key);

}  // namespace comera

#endif  // COMERA_COMMON_CALL_METADATA_H_
