// The rules of docs/scheduling.md as predicates of ClusterPlayer.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/server/scheduler/cluster_player.h"

namespace comera::server {
namespace {

// Owed slots come back within this: a minimum run time, a stop, and what owed
// jobs of other queues take meanwhile.
constexpr int kGuaranteeMinutes = 30;
// A job that lower ones could make room for waits no longer than this behind
// one that cannot start.
constexpr int kUrgentMinutes = 120;
// Preemptions of one job in an hour beyond those that arrivals and ends
// explain.
constexpr int kPreemptionsPerHour = 2;

}  // namespace

// "A gang gets all its slots or none", on slots that are free and fit, within
// its queue's maximum.
void ClusterPlayer::CheckPlacements(const Decision& decision) {
  std::set<std::pair<int, int>> free;
  for (size_t w = 0; w < snapshot_.workers.size(); ++w) {
    for (int slot : snapshot_.workers[w].free_cpu) {
      free.insert({static_cast<int>(w), slot});
    }
  }
  std::map<int, int> used = Used();
  for (const Placement& placement : decision.placements) {
    const PendingJob& job = snapshot_.jobs[placement.job];
    const auto processes = static_cast<int32_t>(placement.members.size());
    const bool whole =
        job.sizes.empty()
            ? processes == job.processes
            : std::count(job.sizes.begin(), job.sizes.end(), processes) == 1;
    if (!whole)
      Fail("a gang is placed whole", absl::StrCat("job ", job.serial));
    for (const MemberPlace& place : placement.members) {
      if (IsUnfit(place.worker, place.slot)) {
        Fail("unfit slots are not used", absl::StrCat("job ", job.serial));
      }
      if (free.erase({place.worker, place.slot}) == 0) {
        Fail("a slot is used once", absl::StrCat("job ", job.serial));
      }
    }
    used[job.queue] += processes;
    if (used[job.queue] > snapshot_.queues[job.queue].limit) {
      Fail("a queue keeps its maximum", absl::StrCat("job ", job.serial));
    }
  }
}

void ClusterPlayer::CheckEveryJobIsDecided(const Decision& decision) {
  std::set<int> decided;
  for (const Placement& placement : decision.placements) {
    if (!decided.insert(placement.job).second) {
      Fail("a job is decided once", absl::StrCat(placement.job));
    }
  }
  for (const WaitingJob& waiting : decision.waiting) {
    if (!decided.insert(waiting.job).second || waiting.reason.Text().empty()) {
      Fail("a job is decided once", absl::StrCat(waiting.job));
    }
  }
  if (decided.size() != snapshot_.jobs.size()) {
    Fail("a job is decided once", "some are not");
  }
}

// The rules on which jobs may be stopped, when, and for whom.
void ClusterPlayer::CheckStops(const Decision& decision) {
  std::set<int> stopped;
  std::map<int, int> used = Used();
  for (const Placement& placement : decision.placements) {
    used[snapshot_.jobs[placement.job].queue] +=
        static_cast<int>(placement.members.size());
  }
  for (const StopOrder& order : decision.stops) {
    const RunningJob& victim = snapshot_.running[order.running];
    const std::string what =
        absl::StrCat("job ", victim.serial, " for ",
                     order.job < 0 ? -1 : snapshot_.jobs[order.job].serial);
    if (!stopped.insert(order.running).second || victim.stopping) {
      Fail("a job is stopped once", what);
    }
    if (snapshot_.now - victim.started < snapshot_.options.min_run_time) {
      Fail("no job is stopped in its first minutes", what);
    }
    if (order.kind == StopOrder::kGrow) continue;
    if (!victim.preemptible) Fail("a job may refuse preemption", what);
    const PendingJob& job = snapshot_.jobs[order.job];
    const bool same = victim.queue == job.queue;
    const bool borrows = used[victim.queue] >
                         snapshot_.queues[victim.queue].guaranteed_processes;
    const bool owed = IsOwed(job, Used());
    const bool shrinks = order.kind == StopOrder::kShrink;
    const bool lower = victim.priority < job.priority ||
                       (shrinks && victim.priority == job.priority);
    if (!(lower && (same || borrows || owed)) && !(owed && !same && borrows)) {
      Fail("only lower jobs and borrowers are stopped", what);
    }
    used[victim.queue] -= victim.processes - order.processes;
  }
  if (snapshot_.jobs.size() != 1 || decision.stops.empty()) return;
  // One job waits alone: the slots that it is sure to get soon.
  int soon = 0;
  for (const WorkerSlots& room : snapshot_.workers) {
    soon += static_cast<int>(room.free_cpu.size());
  }
  for (const RunningJob& job : snapshot_.running) {
    if (job.stopping ||
        job.expected_end <=
            snapshot_.now + snapshot_.options.preemption_grace) {
      soon += job.processes - job.kept_processes;
    }
  }
  const PendingJob& job = snapshot_.jobs[0];
  if (decision.stops[0].job == 0 && job.min_processes() <= soon &&
      Used()[job.queue] + job.min_processes() <=
          snapshot_.queues[job.queue].limit) {
    Fail("nobody is stopped for slots that come free", "");
  }
}

// Jobs that differ in nothing start in the order in which they came, and none
// starts in room that would do for a more urgent one of its queue.
void ClusterPlayer::CheckOrder(const Decision& decision) {
  for (const Placement& placement : decision.placements) {
    const PendingJob& placed = snapshot_.jobs[placement.job];
    if (placed.resizing) continue;
    for (const WaitingJob& waiting : decision.waiting) {
      const PendingJob& other = snapshot_.jobs[waiting.job];
      if (other.queue != placed.queue ||
          other.min_processes() > static_cast<int>(placement.members.size()) ||
          other.min_processes() > placed.min_processes() ||
          other.duration > placed.duration || other.not_before > Now() ||
          placed.granted > other.granted ||
          // Its slots are coming, and nobody else gets them.
          waiting.reason.kind == WaitReason::kRoomComing) {
        continue;
      }
      if (other.priority > placed.priority) {
        Fail("priority goes first",
             absl::StrCat("job ", placed.serial, " before ", other.serial));
      }
      if (other.priority == placed.priority && other.user == placed.user &&
          other.serial < placed.serial) {
        Fail("equal jobs start in order",
             absl::StrCat("job ", placed.serial, " before ", other.serial));
      }
    }
  }
}

// The first job that waits for slots does not wait in front of enough of them.
void ClusterPlayer::CheckNoRoomIdles(const Decision& decision) {
  if (!decision.placements.empty() || !decision.stops.empty()) return;
  int free = 0, coming = 0;
  for (const WorkerSlots& room : snapshot_.workers) {
    free += static_cast<int>(room.free_cpu.size());
  }
  for (const RunningJob& job : snapshot_.running) {
    if (job.stopping) coming += job.processes;
  }
  if (coming > 0) return;
  for (const WaitingJob& waiting : decision.waiting) {
    if (waiting.reason.kind != WaitReason::kNoRoom) continue;
    if (snapshot_.jobs[waiting.job].min_processes() <= free) {
      Fail("room does not idle in front of the first job",
           absl::StrCat("job ", snapshot_.jobs[waiting.job].serial));
    }
  }
}

// Preemption ends: nobody takes slots back from whom it had to leave them to,
// nobody is stopped again and again, and nobody has more stopped than it uses.
void ClusterPlayer::CheckPreemptionsEnd(const Decision& decision) {
  int explained = 0;
  for (int i = std::max(0, minute_ - 60); i <= minute_; ++i) {
    explained += events_[i];
  }
  for (const StopOrder& order : decision.stops) {
    if (order.job < 0) continue;
    const int victim = running_[order.running], taker = queued_[order.job];
    const Job& stopped = jobs_[victim];
    const Job& waiting = jobs_[taker];
    if (scenario_.kind == Scenario::kPriorities &&
        waiting.displaced_by == victim && waiting.displaced_at > minute_ - 60 &&
        order.kind == StopOrder::kPreempt) {
      Fail("nobody takes back what was taken",
           absl::StrCat("job ", taker, " from ", victim));
    }
    if (order.kind == StopOrder::kPreempt) {
      const auto recent = std::count_if(
          stopped.preempted_at.begin(), stopped.preempted_at.end(),
          [&](int at) { return at > minute_ - 60; });
      if (recent >= kPreemptionsPerHour + explained) {
        Fail("a job is preempted a few times an hour at most",
             absl::StrCat("job ", victim));
      }
    }
    if (waiting.freed_for > (3 + explained) * least(taker)) {
      Fail("room that was made is used", absl::StrCat("job ", taker));
    }
  }
  if (scenario_.kind == Scenario::kForever && minute_ > 250 &&
      !decision.stops.empty()) {
    Fail("preemption comes to rest", "after 250 minutes");
  }
}

// "Elastic jobs grow when slots have been left over for a minute and no job
// waits."
void ClusterPlayer::CheckGrowth(const Decision& decision) {
  int free = 0;
  for (const WorkerSlots& room : snapshot_.workers) {
    free += static_cast<int>(room.free_cpu.size());
  }
  bool could = false;
  const std::map<int, int> used = Used();
  for (const RunningJob& job : snapshot_.running) {
    if (job.stopping) could = false;
    const int room =
        std::min(free, snapshot_.queues[job.queue].limit - used.at(job.queue));
    for (int32_t size : job.sizes) {
      if (!job.stopping && size > job.processes &&
          size <= job.processes + room &&
          snapshot_.now - job.started >= snapshot_.options.min_run_time) {
        could = true;
      }
    }
  }
  idle_minutes_ = could && queued_.empty() && decision.stops.empty()
                      ? idle_minutes_ + 1
                      : 0;
  if (idle_minutes_ > 3) Fail("elastic jobs grow", "");
}

// "A queue gets its guarantee": owed demand that could be met by what borrowers
// have is met soon.
void ClusterPlayer::CheckGuarantees() {
  int guaranteed = 0;
  for (const QueueShare& queue : snapshot_.queues) {
    guaranteed += queue.guaranteed_processes;
  }
  std::map<int, int> used, eligible;
  int free = 0, total = 0;
  for (const WorkerSlots& room : snapshot_.workers) {
    free += static_cast<int>(room.free_cpu.size());
    total += room.total_cpu - room.unfit_cpu;
  }
  if (guaranteed > total) return unmet_since_.clear();
  std::set<int> served;
  for (int number : queued_) {
    if (jobs_[number].running()) {
      served.insert(plan(number).queue);
      free -= static_cast<int>(jobs_[number].places.size());
      used[plan(number).queue] += static_cast<int>(jobs_[number].places.size());
    }
  }
  for (const RunningJob& job : snapshot_.running) {
    used[job.queue] += job.processes;
    if (job.preemptible &&
        snapshot_.now - job.started >= snapshot_.options.min_run_time) {
      eligible[job.queue] += job.usable_processes;
    }
  }
  std::map<int, int> largest;
  std::map<int, bool> yields;
  for (size_t i = 0; i < queued_.size(); ++i) {
    const PendingJob& job = snapshot_.jobs[i];
    if (jobs_[queued_[i]].running()) continue;
    if (job.min_processes() > snapshot_.queues[job.queue].limit) continue;
    if (IsOwed(job, used)) {
      largest[job.queue] = std::max(largest[job.queue], job.min_processes());
    } else if (job.granted > 0 ||
               snapshot_.now - job.waiting_since > snapshot_.options.patience) {
      // It may go before the others of its queue.
      yields[job.queue] = true;
    }
  }
  for (size_t q = 0; q < snapshot_.queues.size(); ++q) {
    const auto queue = static_cast<int>(q);
    int reclaim = free;
    for (const auto& [other, slots] : eligible) {
      if (other == queue) continue;
      reclaim += std::clamp(
          used[other] - snapshot_.queues[other].guaranteed_processes, 0, slots);
    }
    if (largest.count(queue) == 0 || yields[queue] || served.count(queue) > 0 ||
        reclaim < largest[queue]) {
      unmet_since_.erase(queue);
      continue;
    }
    const int since = unmet_since_.emplace(queue, minute_).first->second;
    if (minute_ - since > kGuaranteeMinutes) {
      Fail("a queue gets its guarantee",
           absl::StrCat("queue ", queue, " since minute ", since));
    }
  }
}

// A job that cannot start does not keep others from preempting: whoever finds
// enough slots with lower jobs, whose ends are unknown, starts soon.
void ClusterPlayer::CheckUrgentJobsPreempt() {
  if (scenario_.kind != Scenario::kPriorities) return;
  int highest = -1;
  for (size_t i = 0; i < queued_.size(); ++i) {
    if (jobs_[queued_[i]].running()) {
      highest = std::max(highest, snapshot_.jobs[i].priority);
    }
  }
  for (size_t i = 0; i < queued_.size(); ++i) {
    Job& waiting = jobs_[queued_[i]];
    const PendingJob& job = snapshot_.jobs[i];
    if (waiting.running()) {
      waiting.ignored_since = -1;
      continue;
    }
    int lower = 0, used = 0;
    for (const RunningJob& other : snapshot_.running) {
      if (other.queue == job.queue) used += other.processes;
      if (other.priority < job.priority && other.preemptible &&
          !other.stopping && other.expected_end == absl::InfiniteFuture() &&
          snapshot_.now - other.started >= snapshot_.options.min_run_time) {
        lower += other.usable_processes;
      }
    }
    // A job in excess of its queue's maximum holds its own queue back.
    const bool held_back =
        std::any_of(snapshot_.jobs.begin(), snapshot_.jobs.end(),
                    [&](const PendingJob& other) {
                      return other.queue == job.queue &&
                             used + other.min_processes() >
                                 snapshot_.queues[job.queue].limit;
                    });
    if (held_back || highest >= job.priority || lower < job.min_processes() ||
        used + job.min_processes() > snapshot_.queues[job.queue].limit) {
      waiting.ignored_since = -1;
      continue;
    }
    if (waiting.ignored_since < 0) waiting.ignored_since = minute_;
    if (minute_ - waiting.ignored_since > kUrgentMinutes) {
      Fail("a job that cannot start stops nobody else",
           absl::StrCat("job ", queued_[i]));
    }
  }
}

// Whoever may start ends, once no more jobs come; and a wide job among endless
// small ones starts soon after it lost patience.
void ClusterPlayer::CheckStarvation() {
  if (scenario_.kind == Scenario::kForever ||
      scenario_.kind == Scenario::kBacklog) {
    return;
  }
  minute_ = scenario_.minutes;
  const int fit = FitSlots();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const auto number = static_cast<int>(i);
    if (jobs_[i].done || least(number) > fit ||
        least(number) > snapshot_.queues[plan(number).queue].limit) {
      continue;
    }
    if (scenario_.kind == Scenario::kWide &&
        (plan(number).length != 60 || jobs_[i].attempt > 0)) {
      continue;
    }
    Fail("nobody starves", absl::StrCat("job ", number));
  }
}

void ClusterPlayer::CountShares() {
  if (scenario_.kind != Scenario::kBacklog || minute_ < 120) return;
  std::set<int> waits;
  for (int job : queued_) waits.insert(plan(job).queue);
  if (waits.size() < shares_.size()) return;
  for (const RunningJob& job : snapshot_.running) {
    shares_[job.queue] += job.processes;
  }
  ++counted_;
}

// "Weights hold": within a tenth, or one process of a queue.
void ClusterPlayer::CheckShares() {
  if (counted_ < 12 * 60) return;
  double used = 0, weights = 0;
  for (size_t q = 0; q < shares_.size(); ++q) {
    used += shares_[q];
    weights += snapshot_.queues[q].weight;
  }
  for (size_t q = 0; q < shares_.size(); ++q) {
    const double fair = used * snapshot_.queues[q].weight / weights / counted_;
    const double has = shares_[q] / counted_;
    if (std::abs(has - fair) > std::max(1.0, 0.1 * fair)) {
      Fail("weights hold",
           absl::StrCat("queue ", q, " has ", has, " for ", fair));
    }
  }
}

}  // namespace comera::server
