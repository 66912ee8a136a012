// Watches every call from outside of its handler: for the audit log, and for
// services that know nothing of tokens.
#ifndef COMERA_SERVER_API_AUDITED_CALL_H_
#define COMERA_SERVER_API_AUDITED_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "comera/v1/access_service.pb.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/auth/access.h"
#include "server/auth/audit_log.h"
#include "server/auth/forwarded_calls.h"
#include "server/auth/token_access.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

// An interceptor that writes to `log`, unless that is null:
//  - calls that change something, before their answer leaves; not those of
//    workers, whose reports are the jobs' own events;
//  - calls of any kind that were refused;
//  - calls that should have changed something and failed.
// It ends calls of server reflection that show no valid token where one is
// needed. `changes` rises with every call that changed something, before its
// answer leaves. All must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallAuditor(TokenAccess* access, const ForwardedCalls* forwarded,
                AuditLog* log, std::atomic<int64_t>* changes);

// Whether calls of "/comera.v1.SERVICE/METHOD" change what readers see. Those
// of workers do not count.
bool ChangesSomething(const std::string& method);

// The entry of a successful call that changes a job, for the very batch that
// makes the change durable. Methods that use it are known to the interceptor.
JobAudit AuditJobChange(const Caller& caller,
                        const grpc::CallbackServerContext& context,
                        const std::string& method);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_AUDITED_CALL_H_
