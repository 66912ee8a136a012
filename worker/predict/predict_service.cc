// Handles the rpcs of PredictService and finds the caller's ticket.

#include "worker/predict/predict_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "common/call_metadata.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "worker/predict/call_timer.h"
#include "worker/predict/caller_ticket.h"

namespace comera::worker {
namespace {

absl::Time DeadlineOf(const grpc::ServerContextBase& context,
                      absl::Duration limit) {
  const absl::Time most = absl::Now() + limit;
  // A missing deadline lies beyond what absl::Time can represent.
  if (context.deadline() == std::chrono::system_clock::time_point::max()) {
    return most;
  }
  return std::min(most, absl::FromChrono(context.deadline()));
}

// A token, which clients of earlier versions sent, is refused unread: whoever
// runs a worker could use it.
absl::StatusOr<std::string> TicketOf(const grpc::ServerContextBase& context) {
  if (context.client_metadata().count("authorization") > 0) {
    return absl::UnauthenticatedError(
        "a worker takes tickets of the coordinator, never a token: update the "
        "client");
  }
  std::string ticket = MetadataOf(context, kTicketMetadata);
  const auto identity = context.auth_context();
  RETURN_IF_ERROR(
      CheckTicket(ticket, context.peer(),
                  identity != nullptr && identity->IsPeerAuthenticated()));
  return ticket;
}

// A call with one answer, which owns itself.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  // Sends the answer, and cancels the call if it is not read.
  void Send(grpc::CallbackServerContext* context, UnreadAnswers* unread,
            int64_t bytes, absl::Time read_until, const absl::Status& status) {
    unread_.emplace(unread, context, bytes);
    timer_.emplace(context, read_until);
    Finish(ToGrpcStatus(status));
  }

 private:
  void OnDone() override { delete this; }

  std::optional<UnreadAnswers::Answer> unread_;
  std::optional<CallTimer> timer_;
};

}  // namespace

grpc::ServerUnaryReactor* PredictServiceImpl::Answer(
    grpc::CallbackServerContext* context,
    const google::protobuf::Message* request,
    const google::protobuf::Message* response,
    std::function<absl::Status()> answer) {
  auto* const call = new UnaryCall;
  const bool taken = threads_.Run([=, answer = std::move(answer)] {
    const absl::Status status = answer();
    // The messages, which live as long as the call, and what is sent.
    const auto bytes =
        static_cast<int64_t>(request->SpaceUsedLong()) +
        static_cast<int64_t>(response->SpaceUsedLong()) +
        (status.ok() ? static_cast<int64_t>(response->ByteSizeLong()) : 0);
    call->Send(context, &unread_, bytes, absl::Now() + options_.read_within,
               status);
  });
  if (!taken) {
    call->Send(context, &unread_,
               static_cast<int64_t>(request->SpaceUsedLong()),
               absl::Now() + options_.read_within,
               absl::ResourceExhaustedError(
                   "too many calls are waiting already: try again"));
  }
  return call;
}

grpc::ServerUnaryReactor* PredictServiceImpl::LoadModel(
    grpc::CallbackServerContext* context, const v1::LoadModelRequest* request,
    v1::ServedModel* response) {
  const absl::Time deadline = DeadlineOf(*context, options_.most_time);
  return Answer(context, request, response, [=]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string ticket, TicketOf(*context));
    ASSIGN_OR_RETURN(
        *response, models_->Load(request->name(), ticket, deadline,
                                 [context] { return context->IsCancelled(); }));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* PredictServiceImpl::Predict(
    grpc::CallbackServerContext* context, const v1::PredictRequest* request,
    v1::PredictResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, options_.most_time);
  return Answer(context, request, response, [=]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string ticket, TicketOf(*context));
    ASSIGN_OR_RETURN(*response,
                     models_->Predict(*request, ticket, deadline, [context] {
                       return context->IsCancelled();
                     }));
    return absl::OkStatus();
  });
}

grpc::Status PredictServiceImpl::Generate(
    grpc::ServerContext* context, const v1::GenerateRequest* request,
    grpc::ServerWriter<v1::GenerateResponse>* writer) {
  const auto generate = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string ticket, TicketOf(*context));
    const absl::Time deadline =
        DeadlineOf(*context, options_.most_generation_time);
    const CallTimer timer(context, deadline + options_.cancel_after);
    return models_->Generate(
        *request, ticket, deadline,
        [context] { return context->IsCancelled(); },
        [writer](const v1::GenerateResponse& piece) {
          return writer->Write(piece);
        });
  };
  return ToGrpcStatus(generate());
}

}  // namespace comera::worker
