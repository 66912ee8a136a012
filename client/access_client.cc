// Calls AccessService: tokens, the caller's identity, the audit log.

#include "client/access_client.h"

#include <utility>

#include "absl/time/clock.h"
#include "client/service_calls.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {
namespace {

constexpr int kPageSize = 500;

}  // namespace

class AccessClient::Impl : public ServiceCalls<v1::AccessService> {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel,
       const TrainingClient::Options& options)
      : ServiceCalls(std::move(channel), options), timeout_(options.timeout) {}

  // Not retried: an answer that was lost may have made a token, so the user has
  // to look.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      const v1::CreateTokenRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    v1::CreateTokenResponse response;
    RETURN_IF_ERROR(
        FromGrpcStatus(stub().CreateToken(&context, request, &response)));
    return response;
  }

 private:
  const absl::Duration timeout_;
};

AccessClient::AccessClient(std::shared_ptr<grpc::Channel> channel,
                           const TrainingClient::Options& options)
    : impl_(std::make_unique<Impl>(std::move(channel), options)) {}

AccessClient::~AccessClient() = default;

absl::StatusOr<v1::CreateTokenResponse> AccessClient::CreateToken(
    const v1::CreateTokenRequest& request) {
  return impl_->CreateToken(request);
}

absl::StatusOr<std::vector<v1::Token>> AccessClient::ListTokens() {
  ASSIGN_OR_RETURN(v1::ListTokensResponse response,
                   impl_->Call(&v1::AccessService::Stub::ListTokens,
                               v1::ListTokensRequest()));
  return std::vector<v1::Token>(response.tokens().begin(),
                                response.tokens().end());
}

absl::StatusOr<v1::Token> AccessClient::RevokeToken(const std::string& name) {
  v1::RevokeTokenRequest request;
  request.set_name(name);
  return impl_->Call(&v1::AccessService::Stub::RevokeToken, request);
}

absl::StatusOr<v1::WhoAmIResponse> AccessClient::WhoAmI() {
  return impl_->Call(&v1::AccessService::Stub::WhoAmI, v1::WhoAmIRequest());
}

absl::StatusOr<std::vector<v1::AuditEntry>> AccessClient::ListAuditEntries(
    v1::ListAuditEntriesRequest request, int64_t limit) {
  std::vector<v1::AuditEntry> entries;
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(
        v1::ListAuditEntriesResponse page,
        impl_->Call(&v1::AccessService::Stub::ListAuditEntries, request));
    for (v1::AuditEntry& entry : *page.mutable_entries()) {
      if (limit > 0 && static_cast<int64_t>(entries.size()) == limit) {
        return entries;
      }
      entries.push_back(std::move(entry));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return entries;
}

}  // namespace comera::client
