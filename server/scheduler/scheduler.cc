// Implements Scheduler: decisions, and explanations of where a job stands.
#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <map>

#include "server/scheduler/schedule_pass.h"

namespace comera::server {
namespace {

constexpr size_t kMaxAhead = 10;

// The free slots of a pool over time, if jobs start one after the other, each
// as soon as it fits, and nobody overtakes.
class Timeline {
 public:
  Timeline(const ClusterSnapshot& snapshot, bool gpu, int32_t free)
      : now_(snapshot.now), time_(snapshot.now), room_(free) {
    for (const RunningJob& job : snapshot.running) {
      if (job.gpu != gpu) continue;
      if (job.stopping) {
        Release(now_ + snapshot.options.preemption_grace,
                std::max(0, job.usable_processes - job.kept_processes));
      } else if (job.expected_end != absl::InfiniteFuture()) {
        Release(std::max(now_, job.expected_end), job.usable_processes);
      }
    }
  }

  // Moves to the time when the slots are free; nothing if that is never, as far
  // as is known.
  std::optional<absl::Time> WaitFor(int32_t processes) {
    while (room_ < processes && !releases_.empty()) {
      time_ = std::max(time_, releases_.begin()->first);
      room_ += releases_.begin()->second;
      releases_.erase(releases_.begin());
    }
    if (room_ < processes) return std::nullopt;
    return time_;
  }

  bool Start(const PendingJob& job) {
    if (job.not_before > time_) time_ = job.not_before;
    if (!WaitFor(job.min_processes())) return false;
    room_ -= job.min_processes();
    if (job.duration != absl::InfiniteDuration()) {
      Release(time_ + job.duration, job.min_processes());
    }
    return true;
  }

 private:
  void Release(absl::Time time, int32_t processes) {
    releases_[time] += processes;
  }

  const absl::Time now_;
  absl::Time time_;
  int32_t room_;
  std::map<absl::Time, int32_t> releases_;
};

// Whether the job could start at once with this many processes.
bool CouldStart(const SchedulePass::Probe& probe, int32_t processes,
                absl::Time end) {
  return processes <= probe.free && processes <= probe.queue_room &&
         (!probe.head || probe.head->Allows(processes, end)) &&
         (!probe.queue_head || probe.queue_head->Allows(processes, end));
}

}  // namespace

Decision Scheduler::Decide(const ClusterSnapshot& snapshot) {
  return SchedulePass(snapshot, /*probe=*/-1).Run();
}

Explanation Scheduler::Explain(const ClusterSnapshot& snapshot, int32_t index,
                               const std::vector<int32_t>& sizes) {
  const PendingJob& job = snapshot.jobs[index];
  SchedulePass pass(snapshot, index);
  const Decision decision = pass.Run();
  const SchedulePass::Probe& probe = pass.probe();
  const bool gpu = pass.UsesGpu(job);
  Explanation explanation;
  explanation.processes_now = probe.processes_now;
  explanation.position = static_cast<int32_t>(probe.ahead.size()) + 1;
  explanation.reason = probe.reason;
  explanation.fit_slots = pass.fit_slots(gpu);
  explanation.free_slots = pass.free_slots(gpu);
  for (int32_t other : probe.ahead) {
    if (explanation.ahead.size() == kMaxAhead) break;
    explanation.ahead.push_back({other, pass.order().Why(other, index)});
  }
  if (probe.processes_now > 0) {
    explanation.expected_start = snapshot.now;
    return explanation;
  }
  Timeline timeline(snapshot, gpu, explanation.free_slots);
  bool known = true;
  for (int32_t other : probe.ahead) {
    const PendingJob& ahead = snapshot.jobs[other];
    // This job holds nobody back.
    if (ahead.min_processes() > explanation.fit_slots) continue;
    known = known && timeline.Start(ahead);
  }
  const absl::Time end = snapshot.now + job.duration;
  for (int32_t processes : sizes) {
    Explanation::Smaller smaller;
    smaller.processes = processes;
    smaller.now =
        job.not_before <= snapshot.now && CouldStart(probe, processes, end);
    Timeline copy = timeline;
    if (smaller.now) {
      smaller.expected_start = snapshot.now;
    } else if (known) {
      smaller.expected_start = copy.WaitFor(processes);
    }
    explanation.smaller.push_back(smaller);
  }
  const bool waits_for_room = probe.reason.kind != WaitReason::kNoWorker &&
                              probe.reason.kind != WaitReason::kPoolTooSmall &&
                              probe.reason.kind != WaitReason::kQueueTooSmall &&
                              probe.reason.kind != WaitReason::kQueueLimit &&
                              probe.reason.kind != WaitReason::kEarlierInQueue;
  if (known && waits_for_room) {
    explanation.expected_start = timeline.WaitFor(job.min_processes());
    if (explanation.expected_start && job.not_before > snapshot.now) {
      explanation.expected_start =
          std::max(*explanation.expected_start, job.not_before);
    }
  }
  return explanation;
}

}  // namespace comera::server
