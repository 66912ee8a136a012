// Serves AccessService: tokens, and the audit log's entries.
#include "server/api/access_service.h"

#include <utility>

#include "common/status_macros.h"
#include "server/auth/unary_call.h"

namespace comera::server {

grpc::ServerUnaryReactor* AccessService::CreateToken(
    grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
    v1::CreateTokenResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::CreateTokenResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      tokens_->Create(*request, call.caller()->user(), call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* AccessService::ListTokens(
    grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
    v1::ListTokensResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ListTokensResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      for (v1::Token& token : tokens_->List()) {
                        *response->add_tokens() = std::move(token);
                      }
                      call.Finish(absl::OkStatus());
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* AccessService::RevokeToken(
    grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
    v1::Token* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::Token>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      tokens_->Revoke(request->name(), call);
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* AccessService::WhoAmI(
    grpc::CallbackServerContext* context, const v1::WhoAmIRequest* request,
    v1::WhoAmIResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::WhoAmIResponse>& call) {
                      response->set_user(call.caller()->user());
                      const auto token = access_->FindToken(*context);
                      if (token.ok() && *token != nullptr) {
                        *response->mutable_token() = **token;
                      } else {
                        response->set_open(true);
                      }
                      call.Finish(absl::OkStatus());
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* AccessService::ListAuditEntries(
    grpc::CallbackServerContext* context,
    const v1::ListAuditEntriesRequest* request,
    v1::ListAuditEntriesResponse* response) {
  return ServeUnary(access_, context, response,
                    [&](const UnaryCall<v1::ListAuditEntriesResponse>& call) {
                      RETURN_IF_ERROR(call.Check(Permission::kAdminister));
                      log_->List(*request, call);
                      return absl::OkStatus();
                    });
}

}  // namespace comera::server
