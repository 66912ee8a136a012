// Implements GangScheduler: one scheduling pass and what it changes.
#include "server/coordinator/schedule/gang_scheduler.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

// One pass writes at most this many texts; the rest comes with later passes.
constexpr int kMaxReasons = 500;

void UpdateSpare(bool spare, absl::Time now, absl::Time* since) {
  if (!spare) {
    *since = absl::InfiniteFuture();
  } else if (*since == absl::InfiniteFuture()) {
    *since = now;
  }
}

bool CanGrow(const RunningJob& job) {
  return !job.sizes.empty() && job.processes < job.sizes.front();
}

}  // namespace

void GangScheduler::MarkLoaded(absl::Time now) {
  holders_known_at_ = now + options_->suspect_after;
  // The first pass finds out.
  may_grow_ = true;
}

void GangScheduler::RequestByTime() {
  if (tables_.jobs->index().queued_count() > 0 || may_grow_) needed_ = true;
}

ClusterView GangScheduler::View(absl::Time now) const {
  ClusterView::Options options;
  options.scheduler = options_->scheduler;
  options.suspect_after = options_->suspect_after;
  options.unfit_grace = options_->unfit_grace;
  options.holders_known_at = holders_known_at_;
  options.cpu_spare_since = cpu_spare_since_;
  options.gpu_spare_since = gpu_spare_since_;
  return ClusterView(tables_, options, now);
}

void GangScheduler::Run(Operation* op) {
  needed_ = false;
  if (tables_.jobs->index().queued_count() == 0 && !may_grow_) return;
  PauseQueued(op);
  const ClusterView view = View(op->now());
  const Decision decision = Scheduler::Decide(view.snapshot());
  may_grow_ = std::any_of(view.snapshot().running.begin(),
                          view.snapshot().running.end(), CanGrow);
  for (const Placement& placement : decision.placements) {
    Place(view, placement, op);
  }
  for (const StopOrder& order : decision.stops) Stop(view, order, op);
  ShowWaitReasons(view, decision, op);
  if (decision.more) {
    needed_ = true;
  } else {
    UpdateSpare(decision.cpu_spare, op->now(), &cpu_spare_since_);
    UpdateSpare(decision.gpu_spare, op->now(), &gpu_spare_since_);
  }
}

void GangScheduler::PauseQueued(Operation* op) {
  for (JobEntry* entry : tables_.jobs->index().Queued()) {
    if (!entry->job().pausing()) continue;
    entry->mutable_job().set_pausing(false);
    entry->SetState(v1::PAUSED, "paused", op);
  }
}

void GangScheduler::Place(const ClusterView& view, const Placement& placement,
                          Operation* op) {
  JobEntry& entry = view.queued(placement.job);
  std::vector<MemberSlot> gang;
  for (const MemberPlace& place : placement.members) {
    gang.push_back({view.worker(place.worker).id(), place.slot});
  }
  lifecycle_->Place(entry, gang, op);
  if (!entry.demand().sizes.empty() &&
      static_cast<int32_t>(gang.size()) < entry.demand().processes) {
    may_grow_ = true;
  }
}

void GangScheduler::Stop(const ClusterView& view, const StopOrder& order,
                         Operation* op) {
  JobEntry& entry = view.running(order.running);
  const std::string whom = order.job < 0 ? "" : view.queued(order.job).name();
  switch (order.kind) {
    case StopOrder::kPreempt:
      return lifecycle_->RequestStop(
          entry, AttemptRecord::PREEMPTED,
          absl::StrCat("makes room for ", whom, " (priority ",
                       view.snapshot().jobs[order.job].priority, ")"),
          op);
    case StopOrder::kShrink:
      entry.SetTargetProcesses(order.processes);
      return lifecycle_->RequestStop(
          entry, AttemptRecord::RESIZED,
          absl::StrCat("goes on with ", order.processes,
                       " processes, to make room for ", whom),
          op);
    case StopOrder::kGrow:
      entry.SetTargetProcesses(order.processes);
      return lifecycle_->RequestStop(
          entry, AttemptRecord::RESIZED,
          absl::StrCat("goes on with ", order.processes,
                       " processes, there is room"),
          op);
  }
}

void GangScheduler::ShowWaitReasons(const ClusterView& view,
                                    const Decision& decision, Operation* op) {
  int shown = 0;
  for (const WaitingJob& waiting : decision.waiting) {
    // What came before a wait for the next attempt says more.
    if (waiting.reason.kind == WaitReason::kBackOff) continue;
    if (shown == kMaxReasons) return;
    JobEntry& entry = view.queued(waiting.job);
    if (!entry.SetWaitReason(waiting.reason)) continue;
    ++shown;
    op->effects().views[entry.name()] = entry.job();
  }
}

}  // namespace comera::server
