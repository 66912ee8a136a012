#ifndef COMERA_SERVER_DAEMON_TERM_GUARD_H_
#define COMERA_SERVER_DAEMON_TERM_GUARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "grpcpp/support/server_interceptor.h"

namespace comera::server {

// An interceptor for the leader of several coordinators. It adds the
// leadership's number and the cluster's name to each answer
// (coordinator_address.h), and once `holds`
// says that the leadership is over, it turns every answer into UNAVAILABLE: its
// contents may contradict what the next leader says. These answers, and those
// that are UNAVAILABLE since the leader is stopping, as `leaves` says, are
// marked (no_answer.h). Thread-safe if `holds` and `leaves` are.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTermGuard(int64_t term, std::string cluster, std::function<bool()> holds,
              std::function<bool()> leaves);

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_TERM_GUARD_H_
