// Implements WorkerMonitor: silence, probes and the loss of workers.
#include "server/coordinator/synchronize/worker_monitor.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace comera::server {
namespace {

// How often workers that stay away are looked for.
constexpr absl::Duration kLookInterval = absl::Minutes(1);

}  // namespace

void WorkerMonitor::Check(Operation* op) {
  mass_silence_.Update(op->now());
  for (auto& [id, worker] : workers_->workers()) {
    held_calls_->AnswerIfExpired(worker, op);
    CheckSilence(worker, op);
    if (worker.NeedsProbe(op->now(), options_->probe_after, options_->host)) {
      worker.RecordProbe(op->now());
      op->effects().probes.push_back(
          {id, worker.incarnation(), worker.peer_address()});
    }
  }
  ForgetAway(op);
}

void WorkerMonitor::ForgetAway(Operation* op) {
  if (op->now() < next_look_) return;
  next_look_ = op->now() + kLookInterval;
  for (const std::string& id :
       workers_->ForgetAway(op->now(), options_->forget_worker_after)) {
    peers_->Forget(id);
  }
  peers_->ReviewStore(op);
}

void WorkerMonitor::CheckSilence(WorkerState& worker, Operation* op) {
  if (worker.lost() || worker.held()) return;
  if (mass_silence_.active() && mass_silence_.IsSilent(worker, op->now())) {
    lifecycle_->NoteMassSilence(worker, op);
  }
  const absl::Duration patience =
      worker.attached() ? options_->node_lost_after : options_->reattach_grace;
  if (mass_silence_.holds(op->now()) &&
      op->now() - worker.last_seen() <=
          options_->mass_silence_wait + patience) {
    return;
  }
  if (mass_silence_.SilenceOf(worker, op->now()) <= patience) return;
  const absl::Duration silent = op->now() - worker.last_seen();
  worker.MarkLost();
  if (!worker.peer_address().empty()) peers_->MarkPeersChanged();
  lifecycle_->GiveUpSilent(
      worker,
      absl::StrCat("was not heard from for ",
                   absl::FormatDuration(absl::Trunc(silent, absl::Seconds(1)))),
      op);
}

void WorkerMonitor::ConfirmExit(const std::string& id,
                                const std::string& incarnation, Operation* op) {
  WorkerState* worker = workers_->Find(id);
  if (worker == nullptr || worker->incarnation() != incarnation ||
      worker->lost() || worker->held() ||
      op->now() - worker->last_seen() < options_->probe_after) {
    return;
  }
  worker->MarkLost();
  lifecycle_->LoseMembers(
      *worker, "is gone: its machine has no such process any more", op);
  peers_->MarkPeersChanged();
}

}  // namespace comera::server
