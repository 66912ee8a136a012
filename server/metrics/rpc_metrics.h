#ifndef COMERA_SERVER_METRICS_RPC_METRICS_H_
#define COMERA_SERVER_METRICS_RPC_METRICS_H_

#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "prometheus/registry.h"

namespace comera::server {

// An interceptor that counts and times the calls of comera's services in
// `registry`, which must outlive the server:
//  - comera_rpc_seconds{method, code}: unary calls;
//  - comera_rpc_streams_total{method, code}: streams that ended;
//  - comera_rpc_streams_open{method}.
// A method that no proto file knows is "unknown", whatever the caller calls it.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeRpcMetrics(prometheus::Registry* registry);

}  // namespace comera::server

#endif  // COMERA_SERVER_METRICS_RPC_METRICS_H_
