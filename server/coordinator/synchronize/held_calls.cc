// Implements HeldCalls: waiting Synchronize calls are answered or dropped.
#include "server/coordinator/synchronize/held_calls.h"

#include <utility>

namespace comera::server {

void HeldCalls::Hold(WorkerState& worker, int64_t call, absl::Time deadline) {
  worker.Hold({call, deadline});
  holders_[call] = worker.id();
}

void HeldCalls::Answer(WorkerState& worker, Operation* op) {
  if (!worker.held()) return;
  v1::SynchronizeResponse response;
  assignments_->Write(&worker, &response, op);
  const int64_t call = worker.ReleaseHeldCall(op->now());
  holders_.erase(call);
  op->effects().replies.push_back({call, std::move(response)});
}

void HeldCalls::AnswerIfExpired(WorkerState& worker, Operation* op) {
  if (worker.held() && worker.held()->deadline <= op->now()) {
    Answer(worker, op);
  }
}

void HeldCalls::AnswerChanged(Operation* op) {
  for (const std::string& id : op->changed_workers()) {
    if (WorkerState* worker = workers_->Find(id)) Answer(*worker, op);
  }
}

void HeldCalls::AnswerAll(Operation* op) {
  for (auto& [id, worker] : workers_->workers()) Answer(worker, op);
}

void HeldCalls::Refuse(WorkerState& worker, const absl::Status& status,
                       Operation* op) {
  if (!worker.held()) return;
  op->effects().replies.push_back({worker.held()->call, status});
  holders_.erase(worker.held()->call);
  worker.DropHeldCall();
}

void HeldCalls::Abandon(int64_t call) {
  const auto held = holders_.find(call);
  if (held == holders_.end()) return;
  WorkerState* worker = workers_->Find(held->second);
  holders_.erase(held);
  if (worker != nullptr && worker->held() && worker->held()->call == call) {
    worker->DropHeldCall();
  }
}

}  // namespace comera::server
