// Gangs placed, preempted, resized, paused.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/retry_policy.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr int kMaxIncidents = 64;
// Texts that one pass writes; the rest comes with later passes.
constexpr int kMaxReasons = 500;
constexpr size_t kMaxReasonBytes = 1024;

void NoteSpare(bool spare, absl::Time now, absl::Time* since) {
  if (!spare) {
    *since = absl::InfiniteFuture();
  } else if (*since == absl::InfiniteFuture()) {
    *since = now;
  }
}

}  // namespace

void Coordinator::Schedule(absl::Time now, Effects* effects) {
  needs_schedule_ = false;
  if (jobs_.queued_count() == 0 && !may_grow_) return;
  // Asked for while an attempt was ending.
  for (JobEntry* entry : jobs_.QueuedEntries()) {
    if (!entry->job().pausing()) continue;
    entry->job().set_pausing(false);
    SetState(*entry, v1::PAUSED, "paused", now, effects);
  }
  const View view = Look(now);
  const Decision decision = Scheduler::Decide(view.cluster);
  may_grow_ =
      std::any_of(view.cluster.running.begin(), view.cluster.running.end(),
                  [](const RunningJob& job) {
                    return !job.sizes.empty() && job.ranks < job.sizes.front();
                  });
  for (const Placement& placement : decision.placements) {
    Start(view, placement, now, effects);
  }
  for (const StopOrder& order : decision.stops) TakeOrder(view, order, now);
  TellReasons(view, decision, effects);
  if (decision.more) {
    needs_schedule_ = true;
  } else {
    NoteSpare(decision.cpu_spare, now, &cpu_spare_since_);
    NoteSpare(decision.gpu_spare, now, &gpu_spare_since_);
  }
  Finish(now, effects);
}

void Coordinator::Start(const View& view, const Placement& placement,
                        absl::Time now, Effects* effects) {
  JobEntry& entry = *view.jobs[placement.job];
  Gang gang;
  gang.job = entry.job().name();
  for (const MemberPlace& place : placement.ranks) {
    gang.ranks.push_back({view.workers[place.worker]->id, place.slot});
  }
  entry.record.set_resizing(false);
  Place(gang, now, effects);
  *entry.record.mutable_attempt()->mutable_placed_time() = ToTimestamp(now);
  if (!entry.demand.sizes.empty() &&
      static_cast<int32_t>(gang.ranks.size()) < entry.demand.ranks) {
    may_grow_ = true;
  }
}

void Coordinator::TakeOrder(const View& view, const StopOrder& order,
                            absl::Time now) {
  JobEntry& entry = *view.running[order.running];
  const std::string whom =
      order.job < 0 ? "" : view.jobs[order.job]->job().name();
  switch (order.kind) {
    case StopOrder::kPreempt:
      return StopGang(entry, Attempt::PREEMPTED,
                      absl::StrCat("makes room for ", whom, " (priority ",
                                   view.cluster.jobs[order.job].priority, ")"),
                      now);
    case StopOrder::kShrink:
      entry.record.set_target_processes(order.ranks);
      return StopGang(entry, Attempt::RESIZED,
                      absl::StrCat("goes on with ", order.ranks,
                                   " processes, to make room for ", whom),
                      now);
    case StopOrder::kGrow:
      entry.record.set_target_processes(order.ranks);
      return StopGang(entry, Attempt::RESIZED,
                      absl::StrCat("goes on with ", order.ranks,
                                   " processes, there is room"),
                      now);
  }
}

void Coordinator::TellReasons(const View& view, const Decision& decision,
                              Effects* effects) {
  int told = 0;
  for (const WaitingJob& waiting : decision.waiting) {
    JobEntry& entry = *view.jobs[waiting.job];
    // What came before the wait says more.
    if (waiting.reason.kind == WaitReason::kBackOff ||
        entry.wait == waiting.reason) {
      continue;
    }
    if (told++ >= kMaxReasons) return;
    entry.wait = waiting.reason;
    entry.job().set_reason(waiting.reason.Text());
    effects->views[entry.job().name()] = entry.job();
  }
}

void Coordinator::StopGang(JobEntry& entry, Attempt::StopCause cause,
                           const std::string& reason, absl::Time now) {
  Attempt& attempt = *entry.record.mutable_attempt();
  if (attempt.stopping() || HasResult(attempt)) return;
  attempt.set_stop_cause(cause);
  attempt.set_stop_reason(TruncateUtf8(reason, kMaxReasonBytes));
  *attempt.mutable_stop_time() = ToTimestamp(now);
  entry.job().set_reason(attempt.stop_reason());
  StopAttempt(entry);
}

void Coordinator::EndStopped(JobEntry& entry, absl::Time now,
                             Effects* effects) {
  const Attempt::StopCause cause = entry.record.attempt().stop_cause();
  const std::string why = entry.record.attempt().stop_reason();
  // None of it counts: the gang was ending anyway.
  for (const v1::Failure& failure :
       FailuresCauseFirst(entry.record.attempt())) {
    if (entry.job().incidents_size() >= kMaxIncidents) break;
    *entry.job().add_incidents() = failure;
  }
  if (cause == Attempt::PREEMPTED) {
    entry.record.set_preemptions(entry.record.preemptions() + 1);
    AddFailure(entry, v1::PREEMPTED, -1, why, now, effects);
    const v1::Failure& told = *entry.record.attempt().failures().rbegin();
    if (entry.job().incidents_size() < kMaxIncidents) {
      *entry.job().add_incidents() = told;
    }
  }
  EndAttempt(entry, now);
  entry.record.set_resizing(cause == Attempt::RESIZED);
  if (entry.job().pausing()) {
    entry.job().set_pausing(false);
    SetState(entry, v1::PAUSED,
             cause == Attempt::PAUSED ? why : std::string("paused"), now,
             effects);
    return;
  }
  SetState(
      entry, v1::QUEUED,
      cause == Attempt::PAUSED ? "resumed" : absl::StrCat("stopped: ", why),
      now, effects);
}

void Coordinator::FillStops(const WorkerState& worker,
                            v1::SynchronizeResponse* response) const {
  for (const std::string& name : worker.jobs) {
    const JobEntry& entry = *jobs_.Find(name);
    const Attempt& attempt = entry.record.attempt();
    if (attempt.stop_cause() == Attempt::NOT_ASKED) continue;
    for (int i = 0; i < attempt.members_size(); ++i) {
      const AttemptMember& rank = attempt.members(i);
      if (rank.worker() != worker.id || Ended(rank)) continue;
      v1::MemberStop* stop = response->add_stopping();
      stop->mutable_member()->set_job(name);
      stop->mutable_member()->set_attempt(entry.job().attempt());
      stop->mutable_member()->set_rank(i);
      *stop->mutable_grace() =
          ToProtoDuration(options_.scheduler.preemption_grace);
    }
  }
}

absl::StatusOr<v1::Job> Coordinator::Pause(const v1::PauseJobRequest& request,
                                           absl::Time now, Effects* effects) {
  JobEntry* entry = jobs_.Find(request.name());
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", request.name()));
  }
  const std::string why = request.reason().empty()
                              ? "paused by a client"
                              : absl::StrCat("paused: ", request.reason());
  switch (entry->job().state()) {
    case v1::PAUSED:
      break;
    case v1::QUEUED:
      SetState(*entry, v1::PAUSED, why, now, effects);
      break;
    case v1::STARTING:
    case v1::RUNNING:
      entry->job().set_pausing(true);
      StopGang(*entry, Attempt::PAUSED, why, now);
      Change(*entry);
      Advance(*entry, now, effects);
      break;
    default:
      return absl::FailedPreconditionError(absl::StrCat(
          request.name(), " is ", v1::JobState_Name(entry->job().state())));
  }
  needs_schedule_ = true;
  Finish(now, effects);
  return entry->job();
}

absl::StatusOr<v1::Job> Coordinator::Resume(const v1::ResumeJobRequest& request,
                                            absl::Time now, Effects* effects) {
  JobEntry* entry = jobs_.Find(request.name());
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", request.name()));
  }
  const v1::JobState state = entry->job().state();
  if (IsFinal(state) || state == v1::CANCELLING) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.name(), " is ", v1::JobState_Name(state)));
  }
  if (state == v1::PAUSED) {
    SetState(*entry, v1::QUEUED, "resumed", now, effects);
  } else if (entry->job().pausing()) {
    // It stops all the same, and goes on at once.
    entry->job().set_pausing(false);
    Change(*entry);
  }
  needs_schedule_ = true;
  Finish(now, effects);
  return entry->job();
}

}  // namespace comera::server
