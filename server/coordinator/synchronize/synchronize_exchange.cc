// Implements SynchronizeExchange: one worker's report and what it is answered.
#include "server/coordinator/synchronize/synchronize_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/coordinator/synchronize/member_troubles.h"
#include "server/coordinator/synchronize/progress_reports.h"
#include "server/coordinator/synchronize/synchronize_validation.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

absl::Status Replaced(const std::string& worker) {
  return absl::AbortedError(absl::StrCat("another incarnation of worker ",
                                         worker, " has taken over"));
}

absl::StatusOr<WorkerState*> FindSender(const v1::SynchronizeRequest& request,
                                        WorkerTable* workers) {
  RETURN_IF_ERROR(ValidateSynchronize(request));
  WorkerState* worker = workers->FindOrAdd(request.worker());
  if (worker == nullptr) {
    return absl::ResourceExhaustedError("too many workers");
  }
  if (worker->IsRetiredIncarnation(request.incarnation()) ||
      worker->IsRetiredDaemon(request.daemon())) {
    return Replaced(request.worker());
  }
  return worker;
}

// Whether the answer says anything about the request itself.
bool HasAcks(const v1::SynchronizeResponse& response) {
  return response.report_acks_size() > 0 || response.log_acks_size() > 0 ||
         response.forget_size() > 0 || response.missing_models_size() > 0 ||
         response.ended_jobs_size() > 0 || response.expired_size() > 0;
}

}  // namespace

void SynchronizeExchange::Run(const v1::SynchronizeRequest& request,
                              const std::vector<v1::LogAck>& log_acks,
                              int64_t call, Operation* op) {
  WorkerState* worker = Admit(request, call, op);
  if (worker == nullptr) return;
  // A newer call replaces the one that waits.
  parts_.held_calls->Answer(*worker, op);
  ApplyWorker(request, *worker, op);
  parts_.lifecycle->Readopt(request, *worker, op);
  v1::SynchronizeResponse response;
  parts_.members->ApplyRendezvous(request, op);
  // Reports come before members: an attempt that ends takes no more of them.
  ApplyProgressReports(request, parts_.jobs, &response, op);
  ApplyMemberTroubles(request, parts_.jobs, op);
  parts_.peers->ApplyHeld(request, *worker, &response, op);
  parts_.members->Apply(request, *worker, op);
  parts_.members->AcknowledgeExits(request, &response);
  for (const v1::LogAck& ack : log_acks) *response.add_log_acks() = ack;
  AnswerOrHold(request, *worker, std::move(response), call, op);
}

WorkerState* SynchronizeExchange::Admit(const v1::SynchronizeRequest& request,
                                        int64_t call, Operation* op) {
  absl::StatusOr<WorkerState*> sender = FindSender(request, parts_.workers);
  if (!sender.ok()) {
    op->effects().replies.push_back({call, sender.status()});
    return nullptr;
  }
  WorkerState& worker = **sender;
  if (worker.incarnation() != request.incarnation()) {
    worker.ReplaceIncarnation(request.incarnation());
    parts_.held_calls->Refuse(worker, Replaced(request.worker()), op);
    parts_.lifecycle->LoseMembers(worker, "was restarted", op);
  }
  if (worker.NoteDaemon(request.daemon())) {
    parts_.held_calls->Refuse(worker, Replaced(request.worker()), op);
  }
  return &worker;
}

void SynchronizeExchange::ApplyWorker(const v1::SynchronizeRequest& request,
                                      WorkerState& worker, Operation* op) {
  const WorkerState::ReportChanges changes =
      worker.ApplyReport(request, op->now(), parts_.options->suspect_after);
  if (changes.slots) op->RequestSchedule();
  if (changes.peers) parts_.peers->MarkPeersChanged();
}

void SynchronizeExchange::AnswerOrHold(const v1::SynchronizeRequest& request,
                                       WorkerState& worker,
                                       v1::SynchronizeResponse response,
                                       int64_t call, Operation* op) {
  const absl::Duration hold =
      std::min(FromProtoDuration(request.hold()), parts_.options->max_hold);
  if (HasAcks(response) || hold <= absl::ZeroDuration() ||
      request.seen_version() != worker.desired_version()) {
    parts_.assignments->Write(&worker, &response, op);
    op->effects().replies.push_back({call, std::move(response)});
  } else {
    parts_.held_calls->Hold(worker, call, op->now() + hold);
  }
}

}  // namespace comera::server
