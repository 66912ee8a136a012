// Handles the rpcs of PredictService and finds the caller's token.

#include "worker/predict/predict_service.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// The limit of a call without a deadline, or with a later one.
constexpr absl::Duration kMostTime = absl::Minutes(5);
constexpr size_t kMaxToken = 4096;

absl::Time DeadlineOf(const grpc::ServerContext& context) {
  const absl::Time most = absl::Now() + kMostTime;
  // A missing deadline lies beyond what absl::Time can represent.
  if (context.deadline() == std::chrono::system_clock::time_point::max()) {
    return most;
  }
  return std::min(most, absl::FromChrono(context.deadline()));
}

absl::StatusOr<std::string> TokenOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  std::string authorization;
  const auto found = metadata.find("authorization");
  if (found != metadata.end()) {
    authorization.assign(found->second.data(), found->second.size());
  }
  const auto identity = context.auth_context();
  return TokenOfCall(authorization, context.peer(),
                     identity != nullptr && identity->IsPeerAuthenticated());
}

}  // namespace

absl::StatusOr<std::string> TokenOfCall(const std::string& authorization,
                                        const std::string& peer,
                                        bool has_certificate) {
  if (authorization.empty()) {
    const bool local = absl::StartsWith(peer, "ipv4:127.") ||
                       absl::StartsWith(peer, "ipv6:[::1]") ||
                       absl::StartsWith(peer, "ipv6:%5B::1%5D") ||
                       absl::StartsWith(peer, "unix:");
    if (local || has_certificate) return std::string();
    return absl::UnauthenticatedError(
        "without a token only callers on this machine are served");
  }
  absl::string_view token = authorization;
  if (!absl::ConsumePrefix(&token, "Bearer ") || token.empty() ||
      token.size() > kMaxToken ||
      std::any_of(token.begin(), token.end(),
                  [](char c) { return c <= ' ' || c > '~'; })) {
    return absl::UnauthenticatedError("malformed authorization");
  }
  return std::string(token);
}

grpc::Status PredictServiceImpl::LoadModel(grpc::ServerContext* context,
                                           const v1::LoadModelRequest* request,
                                           v1::ServedModel* response) {
  const auto load = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string token, TokenOf(*context));
    ASSIGN_OR_RETURN(
        *response, models_->Load(request->name(), token, DeadlineOf(*context)));
    return absl::OkStatus();
  };
  return ToGrpcStatus(load());
}

grpc::Status PredictServiceImpl::Predict(grpc::ServerContext* context,
                                         const v1::PredictRequest* request,
                                         v1::PredictResponse* response) {
  const auto predict = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string token, TokenOf(*context));
    ASSIGN_OR_RETURN(*response,
                     models_->Predict(*request, token, DeadlineOf(*context)));
    return absl::OkStatus();
  };
  return ToGrpcStatus(predict());
}

}  // namespace comera::worker
