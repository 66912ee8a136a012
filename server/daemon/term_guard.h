#ifndef COMERA_SERVER_DAEMON_TERM_GUARD_H_
#define COMERA_SERVER_DAEMON_TERM_GUARD_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "grpcpp/support/server_interceptor.h"

namespace comera::server {

// An interceptor for the leader of several coordinators. It adds the
// leadership's number to each answer (coordinator_address.h), and once `holds`
// says that the leadership is over, it turns every answer into UNAVAILABLE: its
// contents may contradict what the next leader says. Thread-safe if `holds` is.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTermGuard(int64_t term, std::function<bool()> holds);

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_TERM_GUARD_H_
