// Connects to a worker's PredictService and retries while it is away.

#include "client/predict/remote_predictor.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/call_metadata.h"
#include "common/grpc_status.h"
#include "common/host_port.h"
#include "common/loopback.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr absl::Duration kPredictTimeout = absl::Minutes(5);
constexpr absl::Duration kGenerateTimeout = absl::Hours(1);
constexpr int kMaxMessageBytes = 256 << 20;
constexpr int kTries = 4;

bool MayBeBackSoon(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemotePredictor>> RemotePredictor::Connect(
    const std::string& address, const ChannelSecurity& security,
    TicketSource tickets, const std::string& model, absl::Duration timeout) {
  // The worker chose it.
  if (!IsHostPort(address)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker announces \"", absl::CEscape(address),
                     "\" as its address, which is not host:port"));
  }
  ChannelSecurity own = security;
  if (own.certificate_file.empty()) own.ca_file.clear();
  const bool has_token = !own.token.empty() || !own.token_file.empty();
  own.token.clear();
  own.token_file.clear();
  if (has_token && own.ca_file.empty() && !own.insecure_token &&
      !IsLoopback(address.substr(0, address.rfind(':')))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the rows and a ticket for the model would travel to ", address,
        " unencrypted: give a certificate of this side (--cert and --key), or "
        "--insecure-token to send them nevertheless"));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  ASSIGN_OR_RETURN(const auto channel, OpenChannel(address, own, arguments));
  auto predictor = absl::WrapUnique(new RemotePredictor(
      v1::PredictService::NewStub(channel), std::move(tickets)));
  v1::LoadModelRequest request;
  request.set_name(model);
  RETURN_IF_ERROR(predictor->Run(timeout, [&](grpc::ClientContext* context) {
    return predictor->stub_->LoadModel(context, request, &predictor->model_);
  }));
  return predictor;
}

template <typename Call>
absl::Status RemotePredictor::Run(absl::Duration timeout, const Call& call) {
  if (absl::Now() >= ticket_until_) {
    ASSIGN_OR_RETURN(ticket_, tickets_());
    ticket_until_ = absl::Now() + kTicketUse;
  }
  grpc::ClientContext context;
  context.AddMetadata(kTicketMetadata, ticket_);
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return absl::CancelledError("stopped");
    running_ = &context;
  }
  const grpc::Status status = call(&context);
  const std::lock_guard<std::mutex> lock(mutex_);
  running_ = nullptr;
  absl::Status told = FromGrpcStatus(status);
  if (!told.ok()) told.SetPayload(kWorkerStatusPayload, absl::Cord());
  return told;
}

absl::StatusOr<v1::PredictResponse> RemotePredictor::Predict(
    const v1::PredictRequest& request) {
  v1::PredictRequest named = request;
  named.set_name(model_.name());
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) absl::SleepFor(absl::Milliseconds(200 << i));
    v1::PredictResponse response;
    status = Run(kPredictTimeout, [&](grpc::ClientContext* context) {
      return stub_->Predict(context, named, &response);
    });
    if (status.ok()) {
      if (response.predictions_size() == request.rows_size()) return response;
      return absl::InternalError("the worker answers other rows");
    }
    if (!MayBeBackSoon(status)) break;
  }
  return status;
}

absl::Status RemotePredictor::Generate(
    const v1::GenerateRequest& request,
    const std::function<absl::Status(const v1::GenerateResponse&)>& take) {
  v1::GenerateRequest named = request;
  named.set_name(model_.name());
  bool begun = false, ended = false;
  absl::Status status, taken;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) absl::SleepFor(absl::Milliseconds(200 << i));
    status = Run(kGenerateTimeout, [&](grpc::ClientContext* context) {
      const auto reader = stub_->Generate(context, named);
      v1::GenerateResponse piece;
      while (taken.ok() && reader->Read(&piece)) {
        begun = true;
        ended = piece.finish() != v1::GenerateResponse::FINISH_UNSPECIFIED;
        taken = take(piece);
      }
      if (!taken.ok()) context->TryCancel();
      return reader->Finish();
    });
    RETURN_IF_ERROR(taken);
    // Another attempt may continue the text otherwise.
    if (begun || !MayBeBackSoon(status)) break;
  }
  if (status.ok() && !ended) {
    return absl::InternalError("the worker does not end the text");
  }
  return status;
}

void RemotePredictor::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  if (running_ != nullptr) running_->TryCancel();
}

}  // namespace comera::client
