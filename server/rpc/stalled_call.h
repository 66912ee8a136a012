#ifndef COMERA_SERVER_RPC_STALLED_CALL_H_
#define COMERA_SERVER_RPC_STALLED_CALL_H_

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

// Ends a stream whose client has not taken what was written for `limit`, and
// frees what gRPC holds of it. The client gets UNAVAILABLE, as from a
// connection that broke, and asks again for what it lacks; the write that is
// under way fails, and the reactor finishes as it does whenever one fails.
//
// The call must not have finished.
void CancelStalled(grpc::ServerContextBase* context, absl::Duration limit);

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_STALLED_CALL_H_
