// Implements FailureRecorder: one failure is told to attempt, worker, clients.
#include "server/coordinator/lifecycle/failure_recorder.h"

#include <optional>
#include <utility>

namespace comera::server {

void FailureRecorder::Record(JobEntry& entry, v1::FailureClass failure_class,
                             int32_t member, const std::string& message,
                             Operation* op) {
  v1::Failure failure;
  failure.set_failure_class(failure_class);
  failure.set_message(message);
  failure.set_rank(member);
  Record(entry, std::move(failure), op);
}

void FailureRecorder::Record(JobEntry& entry, v1::Failure failure,
                             Operation* op) {
  std::optional<v1::Failure> recorded =
      entry.attempt().AddFailure(std::move(failure), op->now());
  if (!recorded) return;
  entry.MarkChanged(op);
  const GangMember* member = entry.attempt().FindMember(recorded->rank());
  if (member != nullptr) {
    exclusion_->Count(entry.name(), member->worker(), *recorded, op);
  }
  // A client that cancelled the job does not care.
  if (entry.state() == v1::CANCELLING) return;
  v1::JobEvent event;
  *event.mutable_incident() = *std::move(recorded);
  entry.AddEvent(std::move(event), op);
}

}  // namespace comera::server
