// Implements PreemptionPlanner: which running jobs make room.
#include "server/scheduler/preemption.h"

#include <algorithm>
#include <tuple>

namespace comera::server {
namespace {

// A plan is tried so often with fewer victims.
constexpr int kMaxRevisions = 4;

}  // namespace

PreemptionPlanner::PreemptionPlanner(const ClusterSnapshot& snapshot,
                                     const ServingOrder& order)
    : snapshot_(snapshot),
      order_(order),
      ordered_(snapshot.running.size()),
      taken_(snapshot.queues.size()) {}

bool PreemptionPlanner::IsEligible(const RunningJob& victim) const {
  return victim.preemptible && !victim.stopping &&
         victim.usable_processes > 0 &&
         snapshot_.now - victim.started >= snapshot_.options.min_run_time;
}

void PreemptionPlanner::Sort() {
  if (sorted_) return;
  sorted_ = true;
  const std::vector<RunningJob>& running = snapshot_.running;
  for (size_t i = 0; i < running.size(); ++i) {
    if (IsEligible(running[i])) victims_.push_back(static_cast<int32_t>(i));
  }
  std::sort(victims_.begin(), victims_.end(), [&](int32_t a, int32_t b) {
    const RunningJob& x = running[a];
    const RunningJob& y = running[b];
    return std::make_tuple(x.priority, y.started, x.processes, -x.serial) <
           std::make_tuple(y.priority, x.started, y.processes, -y.serial);
  });
  for (const bool gpu : {false, true}) {
    slots_[gpu].push_back(0);
    for (int32_t index : victims_) {
      slots_[gpu].push_back(
          slots_[gpu].back() +
          (running[index].gpu == gpu ? running[index].usable_processes : 0));
    }
  }
}

int32_t PreemptionPlanner::SlotsBelow(int32_t priority, bool gpu) const {
  const auto end = std::partition_point(
      victims_.begin(), victims_.end(), [&](int32_t index) {
        return snapshot_.running[index].priority < priority;
      });
  return slots_[gpu][end - victims_.begin()];
}

bool PreemptionPlanner::MayHelp(const Need& need) {
  Sort();
  const PendingJob& job = snapshot_.jobs[need.job];
  if (need.slots <= 0) return !victims_.empty();
  // Jobs of the same priority may shrink.
  const int32_t slots = order_.IsOwed(job.queue, job.min_processes())
                            ? slots_[need.gpu].back()
                            : SlotsBelow(job.priority + 1, need.gpu);
  return need.slots <= slots;
}

bool PreemptionPlanner::HasVictims(int32_t priority, bool gpu) {
  Sort();
  return SlotsBelow(priority + 1, gpu) > 0;
}

bool PreemptionPlanner::MayStop(const RunningJob& victim,
                                const PendingJob& job) const {
  return victim.preemptible && victim.usable_processes > 0 &&
         MayStop(victim, job, RightsOf(job),
                 order_.queue_processes(victim.queue) - taken_[victim.queue]);
}

PreemptionPlanner::Rights PreemptionPlanner::RightsOf(
    const PendingJob& job) const {
  Rights rights;
  rights.owed = order_.IsOwed(job.queue, job.min_processes());
  return rights;
}

bool PreemptionPlanner::MayStop(const RunningJob& victim, const PendingJob& job,
                                const Rights& rights,
                                int32_t victims_queue_processes) const {
  const bool same_queue = victim.queue == job.queue;
  const bool borrows = victims_queue_processes >
                       snapshot_.queues[victim.queue].guaranteed_processes;
  if (victim.priority < job.priority &&
      (borrows || rights.owed || (same_queue && rights.replaces))) {
    return true;
  }
  return rights.owed && !same_queue && borrows;
}

bool PreemptionPlanner::MayShrink(const RunningJob& victim,
                                  const PendingJob& job, const Rights& rights,
                                  int32_t victims_queue_processes) const {
  if (MayStop(victim, job, rights, victims_queue_processes)) return true;
  const bool borrows = victims_queue_processes >
                       snapshot_.queues[victim.queue].guaranteed_processes;
  return victim.priority == job.priority && (borrows || rights.owed);
}

std::vector<StopOrder> PreemptionPlanner::Plan(const Need& need) {
  Sort();
  const PendingJob& job = snapshot_.jobs[need.job];
  Rights rights = RightsOf(job);
  // Victims that a plan would leave owed are barred from the next one.
  barred_.clear();
  for (int i = 0; i < kMaxRevisions; ++i) {
    const size_t barred = barred_.size();
    std::vector<StopOrder> orders = Plan(need, rights);
    if (!orders.empty()) return orders;
    if (barred_.size() > barred) continue;
    if (rights.owed || rights.replaces) break;
    rights.replaces = true;
  }
  return {};
}

std::vector<StopOrder> PreemptionPlanner::Plan(const Need& need,
                                               const Rights& rights) {
  const PendingJob& job = snapshot_.jobs[need.job];
  std::vector<Victim> plan;
  std::vector<int32_t> taken = taken_;
  int32_t slots = need.slots, queue_processes = need.queue_processes;
  const auto add = [&](int32_t index, StopOrder::Kind kind, int32_t processes) {
    const RunningJob& victim = snapshot_.running[index];
    Victim found;
    found.order = {kind, index, processes, need.job};
    found.freed = victim.processes - processes;
    found.freed_slots = victim.gpu == need.gpu
                            ? std::max(0, victim.usable_processes - processes)
                            : 0;
    const int32_t for_queue = victim.queue == job.queue ? found.freed : 0;
    // The victim must help with what is still missing.
    if (!(slots > 0 && found.freed_slots > 0) &&
        !(queue_processes > 0 && for_queue > 0)) {
      return;
    }
    slots -= found.freed_slots;
    queue_processes -= for_queue;
    taken[victim.queue] += found.freed;
    plan.push_back(found);
  };
  const auto queue_ranks_of = [&](const RunningJob& victim) {
    return order_.queue_processes(victim.queue) - taken[victim.queue];
  };
  const auto done = [&] { return slots <= 0 && queue_processes <= 0; };
  for (int32_t index : victims_) {
    if (done()) break;
    const RunningJob& victim = snapshot_.running[index];
    if (IsBarred(index)) continue;
    if (victim.sizes.empty() || ordered_[index] ||
        victim.expected_end <= need.spare_until ||
        !MayShrink(victim, job, rights, queue_ranks_of(victim))) {
      continue;
    }
    // It goes on with the largest size that frees enough, else the smallest.
    const int32_t missing = std::max(slots, queue_processes);
    for (int32_t size : victim.sizes) {
      if (size >= victim.processes) continue;
      if (victim.processes - size >= missing || size == victim.sizes.back()) {
        add(index, StopOrder::kShrink, size);
        break;
      }
    }
  }
  for (int32_t index : victims_) {
    if (done()) break;
    const RunningJob& victim = snapshot_.running[index];
    if (ordered_[index] || IsBarred(index) ||
        victim.expected_end <= need.spare_until)
      continue;
    // A job that shrinks may have to stop altogether.
    const auto shrunk = std::find_if(
        plan.begin(), plan.end(),
        [&](const Victim& other) { return other.order.running == index; });
    int32_t processes = queue_ranks_of(victim);
    if (shrunk != plan.end()) processes += shrunk->freed;
    if (!MayStop(victim, job, rights, processes)) continue;
    if (shrunk != plan.end()) {
      slots += shrunk->freed_slots;
      if (victim.queue == job.queue) queue_processes += shrunk->freed;
      taken[victim.queue] -= shrunk->freed;
      plan.erase(shrunk);
    }
    add(index, StopOrder::kPreempt, 0);
  }
  if (!done()) return {};
  // Stops as few as possible: victims that later ones made superfluous go on.
  std::vector<Victim> kept;
  for (size_t i = 0; i < plan.size(); ++i) {
    const RunningJob& victim = snapshot_.running[plan[i].order.running];
    const int32_t for_queue = victim.queue == job.queue ? plan[i].freed : 0;
    if (slots + plan[i].freed_slots <= 0 && queue_processes + for_queue <= 0) {
      slots += plan[i].freed_slots;
      queue_processes += for_queue;
      taken[victim.queue] -= plan[i].freed;
      continue;
    }
    kept.push_back(plan[i]);
  }
  if (rights.replaces && order_.queue_processes(job.queue) - taken[job.queue] +
                                 job.min_processes() >
                             snapshot_.queues[job.queue].guaranteed_processes) {
    return {};
  }
  // A victim that was owed slots again would come first, and be stopped again.
  const size_t barred = barred_.size();
  for (const Victim& victim : kept) {
    const RunningJob& job_stopped = snapshot_.running[victim.order.running];
    if (rights.owed || victim.order.kind != StopOrder::kPreempt) continue;
    const int32_t queue = job_stopped.queue;
    const int32_t least = job_stopped.sizes.empty() ? job_stopped.processes
                                                    : job_stopped.sizes.back();
    if (rights.replaces && queue == job.queue) continue;
    const int32_t left = order_.queue_processes(queue) - taken[queue];
    if (left + least <= snapshot_.queues[queue].guaranteed_processes) {
      barred_.push_back(victim.order.running);
    }
  }
  if (barred_.size() > barred) return {};
  std::vector<StopOrder> orders;
  for (const Victim& victim : kept) {
    ordered_[victim.order.running] = true;
    orders.push_back(victim.order);
  }
  taken_ = std::move(taken);
  return orders;
}

}  // namespace comera::server
