// Tells a worker what the ticket of one of its callers is good for.
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "server/api/model_listing.h"
#include "server/api/worker_service.h"
#include "server/auth/unary_call.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

// Large models take a while to download.
constexpr absl::Duration kDownloadLifetime = absl::Hours(1);

}  // namespace

grpc::ServerUnaryReactor* WorkerService::RedeemTicket(
    grpc::CallbackServerContext* context,
    const v1::RedeemTicketRequest* request,
    v1::RedeemTicketResponse* response) {
  return ServeUnary(
      access_, context, response,
      [&](const UnaryCall<v1::RedeemTicketResponse>& call) -> absl::Status {
        RETURN_IF_ERROR(call.Check(Permission::kWork));
        ASSIGN_OR_RETURN(
            const Ticket ticket,
            tickets_->Check(TicketOffice::Purpose::kUse, request->ticket(),
                            call.caller()->worker()));
        host_->loop().Post([=] {
          const v1::Job* job = nullptr;
          const v1::Artifact* model =
              FindModel(host_->directory(), ticket.model(), &job);
          if (model == nullptr) {
            return call.Finish(
                absl::NotFoundError(absl::StrCat("no model ", ticket.model())));
          }
          const absl::Status status =
              tickets_->CheckQueue(ticket, job->spec().queue());
          if (!status.ok()) return call.Finish(status);
          v1::RedeemTicketResponse& redeemed = call.response();
          redeemed.mutable_model()->set_name(ticket.model());
          *redeemed.mutable_model()->mutable_artifact() = *model;
          redeemed.mutable_model()->set_user(job->user());
          *redeemed.mutable_expire_time() =
              ToTimestamp(absl::FromUnixMillis(ticket.expire_unix_millis()));
          Ticket download = ticket;
          redeemed.set_download_ticket(tickets_->Issue(
              TicketOffice::Purpose::kDownload, kDownloadLifetime, &download));
          call.Finish(absl::OkStatus());
        });
        return absl::OkStatus();
      });
}

}  // namespace comera::server
