#include "server/api/access_service.h"

#include <functional>
#include <utility>

#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

// Finishes `reactor` with the value or the error.
template <typename T>
std::function<void(absl::StatusOr<T>)> Finisher(
    grpc::ServerUnaryReactor* reactor, T* response) {
  return [reactor, response](absl::StatusOr<T> value) {
    if (value.ok()) *response = *std::move(value);
    reactor->Finish(ToRpcStatus(value.status()));
  };
}

}  // namespace

grpc::ServerUnaryReactor* AccessService::CreateToken(
    grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
    v1::CreateTokenResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller =
      Admit(access_, *context, Permission::kAdminister, "", reactor);
  if (caller == nullptr) return reactor;
  tokens_->Create(*request, caller->user(), Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* AccessService::ListTokens(
    grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
    v1::ListTokensResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) ==
      nullptr) {
    return reactor;
  }
  for (v1::Token& token : tokens_->List()) {
    *response->add_tokens() = std::move(token);
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AccessService::RevokeToken(
    grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
    v1::Token* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) ==
      nullptr) {
    return reactor;
  }
  tokens_->Revoke(request->name(), Finisher(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* AccessService::WhoAmI(
    grpc::CallbackServerContext* context, const v1::WhoAmIRequest* request,
    v1::WhoAmIResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto caller = Admit(access_, *context, reactor);
  if (caller == nullptr) return reactor;
  response->set_user(caller->user());
  const auto token = access_->FindToken(*context);
  if (token.ok() && *token != nullptr) {
    *response->mutable_token() = **token;
  } else {
    response->set_open(true);
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AccessService::ListAuditEntries(
    grpc::CallbackServerContext* context,
    const v1::ListAuditEntriesRequest* request,
    v1::ListAuditEntriesResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Admit(access_, *context, Permission::kAdminister, "", reactor) ==
      nullptr) {
    return reactor;
  }
  log_->List(*request, Finisher(reactor, response));
  return reactor;
}

}  // namespace comera::server
