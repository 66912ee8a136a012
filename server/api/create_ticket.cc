// Makes tickets with which users use a model at a worker.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/api/model_listing.h"
#include "server/api/model_service.h"
#include "server/auth/unary_call.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr absl::Duration kDefaultLifetime = absl::Minutes(1);
constexpr absl::Duration kMaxLifetime = absl::Hours(24);

absl::Status NoModel(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no model ", name));
}

}  // namespace

grpc::ServerUnaryReactor* ModelService::CreateTicket(
    grpc::CallbackServerContext* context,
    const v1::CreateTicketRequest* request,
    v1::CreateTicketResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::CreateTicketResponse>& call) -> absl::Status {
        if (!ParseArtifactName(request->model())) {
          return InvalidField("model", "must be jobs/{job}/models/{model}");
        }
        absl::string_view worker = request->worker();
        if (!absl::ConsumePrefix(&worker, "workers/") ||
            !IsResourceId(std::string(worker))) {
          return InvalidField("worker", "must be workers/{worker}");
        }
        absl::Duration lifetime = kDefaultLifetime;
        if (request->has_lifetime()) {
          lifetime = FromProtoDuration(request->lifetime());
          if (lifetime <= absl::ZeroDuration() || lifetime > kMaxLifetime) {
            return InvalidField("lifetime", "must be above 0, at most a day");
          }
        }
        Ticket ticket;
        ticket.set_model(request->model());
        ticket.set_worker(std::string(worker));
        ticket.set_user(call.caller()->user());
        ticket.set_token(call.caller()->token());
        host_->RunQuery<v1::CreateTicketResponse>(
            [this, call, ticket, lifetime](const Coordinator& coordinator,
                                           absl::Time now) mutable
            -> absl::StatusOr<v1::CreateTicketResponse> {
              const v1::Job* job = nullptr;
              const v1::Artifact* model =
                  FindModel(host_->directory(), ticket.model(), &job);
              if (job == nullptr) return NoModel(ticket.model());
              RETURN_IF_ERROR(
                  call.Check(Permission::kView, job->spec().queue()));
              if (model == nullptr) return NoModel(ticket.model());
              RETURN_IF_ERROR(
                  coordinator
                      .GetWorker(absl::StrCat("workers/", ticket.worker()), now)
                      .status());
              v1::CreateTicketResponse made;
              made.set_ticket(tickets_->Issue(TicketOffice::Purpose::kUse,
                                              lifetime, &ticket));
              *made.mutable_expire_time() = ToTimestamp(
                  absl::FromUnixMillis(ticket.expire_unix_millis()));
              return made;
            },
            call);
        return absl::OkStatus();
      });
}

}  // namespace comera::server
