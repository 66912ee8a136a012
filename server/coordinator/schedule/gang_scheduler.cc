// Implements GangScheduler: one scheduling pass and what it changes.
#include "server/coordinator/schedule/gang_scheduler.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

// One pass writes at most this many texts; the rest comes with later passes.
constexpr int kMaxReasons = 500;
// A job whose checkpoint cannot be read where there is room lets others go
// ahead for this long.
constexpr absl::Duration kPlacementPause = absl::Seconds(30);

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

void GangScheduler::MarkLoaded() {
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
  options.cpu_spare_since = cpu_spare_since_;
  options.gpu_spare_since = gpu_spare_since_;
  options.memory = &memory_;
  return ClusterView(tables_, options, now);
}

void GangScheduler::Run(Operation* op) {
  needed_ = false;
  if (tables_.jobs->index().queued_count() == 0 && !may_grow_) return;
  PauseQueued(op);
  WatchStarts(op);
  ClusterView::Hear(*tables_.jobs, op->now(), &memory_);
  const ClusterView view = View(op->now());
  const Decision decision = Scheduler::Decide(view.snapshot());
  memory_.Note(view.snapshot(), decision);
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
    entry->ForgetLost();
    entry->SetState(v1::PAUSED, "paused", op);
  }
}

void GangScheduler::WatchStarts(Operation* op) {
  for (JobEntry* entry : tables_.jobs->index().Queued()) {
    if (entry->job().attempt() == 0) continue;
    const StartChoice choice = Start(*entry, op->now());
    if (choice.kind == StartChoice::kWait) {
      WaitForStart(choice, *entry, op);
    } else if (choice.kind == StartChoice::kLost) {
      LoseStart(choice, *entry, op);
    } else if (entry->holder_wait() && choice.given_up_step == 0 &&
               !entry->aside()) {
      entry->EndHolderWait(op);
      entry->SetWaitText(WaitReason().Text());
      op->effects().views[entry->name()] = entry->job();
    }
  }
}

void GangScheduler::WaitForStart(const StartChoice& choice, JobEntry& entry,
                                 Operation* op) {
  if (!choice.brief) entry.BeginHolderWait(op);
  if (entry.SetWaitText(choice.text)) {
    op->effects().views[entry.name()] = entry.job();
  }
}

void GangScheduler::LoseStart(const StartChoice& choice, JobEntry& entry,
                              Operation* op) {
  entry.EndHolderWait(op);
  if (entry.job().spec().retries().start_over()) {
    entry.StartOver();
    entry.AddIncident(
        v1::CHECKPOINT_UNREACHABLE,
        absl::StrCat("begins at step 0 again, as retries.start_over says: ",
                     choice.text),
        op);
    entry.SetWaitText(WaitReason().Text());
    return;
  }
  const std::string id(ParseJobName(entry.name()).value_or(entry.name()));
  std::string ways =
      absl::StrCat("`comera resume ", id, " --start-over` to begin at step 0");
  if (!choice.remedy.empty()) {
    ways = absl::StrCat("`comera resume ", id, "` once ", choice.remedy, ", ",
                        ways);
  }
  entry.SetState(v1::PAUSED, absl::StrCat(choice.text, "; ", ways), op);
}

bool GangScheduler::PutReaderFirst(JobEntry& entry,
                                   const v1::TrainingStateKey& state,
                                   std::vector<MemberSlot>* gang,
                                   absl::Time now) {
  for (const MemberSlot& reader : *gang) {
    if (!tables_.starts->CanRead(entry, state,
                                 *tables_.workers->Find(reader.worker), now)) {
      continue;
    }
    const std::string first = reader.worker;
    std::stable_partition(
        gang->begin(), gang->end(),
        [&](const MemberSlot& slot) { return slot.worker == first; });
    return true;
  }
  JobEntry::SetAside aside;
  aside.state = state;
  aside.until = now + kPlacementPause;
  aside.holders = tables_.starts->HoldersOf(entry, state, now);
  std::vector<std::string> holders;
  for (const auto& [worker, incarnation] : aside.holders) {
    holders.push_back(worker);
  }
  aside.text = absl::StrCat("waiting for room where its checkpoint of step ",
                            state.step(), " on ", absl::StrJoin(holders, ", "),
                            " can be read");
  aside.for_room = true;
  entry.set_aside(std::move(aside));
  return false;
}

void GangScheduler::ReportLoss(const StartChoice& choice, JobEntry& entry,
                               Operation* op) {
  if (choice.given_up_step > 0) {
    entry.AddIncident(v1::CHECKPOINT_UNREACHABLE,
                      absl::StrCat("goes on from step ", choice.state.step(),
                                   " in place of step ", choice.given_up_step,
                                   ": ", choice.text),
                      op);
  } else if (choice.kind == StartChoice::kBeginning && !choice.wanted &&
             entry.job().progress().step() > 0) {
    entry.AddIncident(v1::CHECKPOINT_UNREACHABLE,
                      absl::StrCat("no checkpoint had been saved; begins ",
                                   entry.job().spec().has_start_from()
                                       ? "from start_from.checkpoint again"
                                       : "at step 0 again"),
                      op);
  }
}

void GangScheduler::Place(const ClusterView& view, const Placement& placement,
                          Operation* op) {
  JobEntry& entry = view.queued(placement.job);
  std::vector<MemberSlot> gang;
  for (const MemberPlace& place : placement.members) {
    gang.push_back({view.worker(place.worker).id(), place.slot});
  }
  const StartChoice choice = Start(entry, op->now());
  if (choice.kind == StartChoice::kState &&
      !PutReaderFirst(entry, choice.state, &gang, op->now())) {
    op->RequestSchedule();
    return;
  }
  entry.RecordStart(choice.state);
  lifecycle_->Place(entry, gang, op);
  ReportLoss(choice, entry, op);
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
