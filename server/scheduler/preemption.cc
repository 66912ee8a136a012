// Implements PreemptionPlanner: which running jobs make room.
#include "server/scheduler/preemption.h"

#include <algorithm>
#include <tuple>

namespace comera::server {

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
}

bool PreemptionPlanner::MayStop(const RunningJob& victim, const PendingJob& job,
                                bool owed,
                                int32_t victims_queue_processes) const {
  const bool same_queue = victim.queue == job.queue;
  const bool borrows = victims_queue_processes >
                       snapshot_.queues[victim.queue].guaranteed_processes;
  if (victim.priority < job.priority && (same_queue || borrows || owed)) {
    return true;
  }
  return owed && !same_queue && borrows;
}

bool PreemptionPlanner::MayShrink(const RunningJob& victim,
                                  const PendingJob& job, bool owed,
                                  int32_t victims_queue_processes) const {
  if (MayStop(victim, job, owed, victims_queue_processes)) return true;
  const bool borrows = victims_queue_processes >
                       snapshot_.queues[victim.queue].guaranteed_processes;
  return victim.priority == job.priority &&
         (victim.queue == job.queue || borrows || owed);
}

std::vector<StopOrder> PreemptionPlanner::Plan(const Need& need) {
  Sort();
  const PendingJob& job = snapshot_.jobs[need.job];
  const bool owed = order_.IsOwed(job.queue, job.min_processes());
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
    if (victim.sizes.empty() || ordered_[index] ||
        !MayShrink(victim, job, owed, queue_ranks_of(victim))) {
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
    if (ordered_[index]) continue;
    // A job that shrinks may have to stop altogether.
    const auto shrunk = std::find_if(
        plan.begin(), plan.end(),
        [&](const Victim& other) { return other.order.running == index; });
    int32_t processes = queue_ranks_of(victim);
    if (shrunk != plan.end()) processes += shrunk->freed;
    if (!MayStop(victim, job, owed, processes)) continue;
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
  std::vector<StopOrder> orders;
  for (size_t i = 0; i < plan.size(); ++i) {
    const RunningJob& victim = snapshot_.running[plan[i].order.running];
    const int32_t for_queue = victim.queue == job.queue ? plan[i].freed : 0;
    if (slots + plan[i].freed_slots <= 0 && queue_processes + for_queue <= 0) {
      slots += plan[i].freed_slots;
      queue_processes += for_queue;
      taken[victim.queue] -= plan[i].freed;
      continue;
    }
    ordered_[plan[i].order.running] = true;
    orders.push_back(plan[i].order);
  }
  taken_ = std::move(taken);
  return orders;
}

}  // namespace comera::server
