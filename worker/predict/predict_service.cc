// Handles the rpcs of PredictService and finds the caller's token.

#include "worker/predict/predict_service.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "worker/predict/call_timer.h"
#include "worker/predict/caller_token.h"

namespace comera::worker {
namespace {

absl::Time DeadlineOf(const grpc::ServerContext& context,
                      absl::Duration limit) {
  const absl::Time most = absl::Now() + limit;
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

grpc::Status PredictServiceImpl::LoadModel(grpc::ServerContext* context,
                                           const v1::LoadModelRequest* request,
                                           v1::ServedModel* response) {
  const auto load = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string token, TokenOf(*context));
    ASSIGN_OR_RETURN(
        *response, models_->Load(request->name(), token,
                                 DeadlineOf(*context, options_.most_time),
                                 [context] { return context->IsCancelled(); }));
    return absl::OkStatus();
  };
  return ToGrpcStatus(load());
}

grpc::Status PredictServiceImpl::Predict(grpc::ServerContext* context,
                                         const v1::PredictRequest* request,
                                         v1::PredictResponse* response) {
  const auto predict = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string token, TokenOf(*context));
    ASSIGN_OR_RETURN(
        *response,
        models_->Predict(*request, token,
                         DeadlineOf(*context, options_.most_time),
                         [context] { return context->IsCancelled(); }));
    return absl::OkStatus();
  };
  return ToGrpcStatus(predict());
}

grpc::Status PredictServiceImpl::Generate(
    grpc::ServerContext* context, const v1::GenerateRequest* request,
    grpc::ServerWriter<v1::GenerateResponse>* writer) {
  const auto generate = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string token, TokenOf(*context));
    const absl::Time deadline =
        DeadlineOf(*context, options_.most_generation_time);
    const CallTimer timer(context, deadline + options_.cancel_after);
    return models_->Generate(
        *request, token, deadline, [context] { return context->IsCancelled(); },
        [writer](const v1::GenerateResponse& piece) {
          return writer->Write(piece);
        });
  };
  return ToGrpcStatus(generate());
}

}  // namespace comera::worker
