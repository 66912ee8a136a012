#ifndef COMERA_SERVER_API_ACCESS_SERVICE_H_
#define COMERA_SERVER_API_ACCESS_SERVICE_H_

#include "comera/v1/access_service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/auth/audit_log.h"
#include "server/auth/token_access.h"
#include "server/auth/token_store.h"

namespace comera::server {

// Tokens and the audit log over gRPC. Thread-safe; never blocks a gRPC thread.
// Errors: access_service.proto.
class AccessService : public v1::AccessService::CallbackService {
 public:
  // All must outlive the server.
  AccessService(TokenAccess* access, TokenStore* tokens, AuditLog* log)
      : access_(access), tokens_(tokens), log_(log) {}

  grpc::ServerUnaryReactor* CreateToken(
      grpc::CallbackServerContext* context,
      const v1::CreateTokenRequest* request,
      v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(
      grpc::CallbackServerContext* context,
      const v1::ListTokensRequest* request,
      v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const v1::RevokeTokenRequest* request,
                                        v1::Token* response) override;
  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context,
                                   const v1::WhoAmIRequest* request,
                                   v1::WhoAmIResponse* response) override;
  grpc::ServerUnaryReactor* ListAuditEntries(
      grpc::CallbackServerContext* context,
      const v1::ListAuditEntriesRequest* request,
      v1::ListAuditEntriesResponse* response) override;

 private:
  TokenAccess* const access_;
  TokenStore* const tokens_;
  AuditLog* const log_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_ACCESS_SERVICE_H_
