// Implements ClusterPlayer: jobs arrive, run, stop and end minute by minute.
#include "tests/server/scheduler/cluster_player.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

// Jobs that are stopped save their state for so long.
constexpr int kStopMinutes = 1;
// The scheduler is shown so many jobs of a queue with a backlog: the others are
// equal to them.
constexpr int kShownBacklog = 8;

}  // namespace

ClusterPlayer::ClusterPlayer(const Scenario& scenario, Decider decide)
    : scenario_(scenario),
      decide_(std::move(decide)),
      jobs_(scenario.jobs.size()),
      shares_(scenario.queues.size()) {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    jobs_[i].work = static_cast<double>(scenario.jobs[i].length) *
                    scenario.jobs[i].processes;
  }
  snapshot_.queues = scenario.queues;
}

absl::Time ClusterPlayer::Now() const {
  return absl::FromUnixSeconds(2'000'000) + absl::Minutes(minute_);
}

bool ClusterPlayer::IsUnfit(int worker, int slot) const {
  const PlannedWorker& w = scenario_.workers[worker];
  return slot >= w.slots - w.unfit && minute_ >= w.unfit_from &&
         minute_ < w.unfit_until;
}

int ClusterPlayer::FitSlots() const {
  int fit = 0;
  for (size_t w = 0; w < scenario_.workers.size(); ++w) {
    for (int slot = 0; slot < scenario_.workers[w].slots; ++slot) {
      fit += IsUnfit(static_cast<int>(w), slot) ? 0 : 1;
    }
  }
  return fit;
}

void ClusterPlayer::Fail(const std::string& rule, const std::string& what) {
  if (!played_.violation) played_.violation = Violation{rule, minute_, what};
}

bool ClusterPlayer::AllDone() const {
  return std::all_of(jobs_.begin(), jobs_.end(),
                     [](const Job& job) { return job.done; });
}

Played ClusterPlayer::Play() {
  for (minute_ = 0; minute_ <= scenario_.minutes && !AllDone(); ++minute_) {
    played_.minutes = minute_;
    Advance();
    Scan();
    const bool elastic =
        std::any_of(running_.begin(), running_.end(),
                    [&](int job) { return !plan(job).sizes.empty(); });
    if (!queued_.empty() || elastic) {
      ++played_.passes;
      const Decision decision = decide_(snapshot_);
      CheckPlacements(decision);
      CheckEveryJobIsDecided(decision);
      CheckStops(decision);
      if (played_.violation) return played_;
      CheckOrder(decision);
      CheckNoRoomIdles(decision);
      CheckPreemptionsEnd(decision);
      CheckGrowth(decision);
      Carry(decision);
      CheckGuarantees();
      CheckUrgentJobsPreempt();
    } else {
      idle_minutes_ = 0;
      unmet_since_.clear();
    }
    CountShares();
    if (played_.violation) return played_;
  }
  CheckStarvation();
  CheckShares();
  return played_;
}

void ClusterPlayer::Advance() {
  events_.push_back(0);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    if (!job.arrived && plan(static_cast<int>(i)).minute <= minute_) {
      job.arrived = true;
      ++events_.back();
    }
    if (!job.running()) continue;
    job.work -= static_cast<double>(job.places.size());
    if (job.work <= 0) {
      job.done = true;
      job.places.clear();
      ++events_.back();
      ++played_.finished;
    } else if (job.stopping && job.stops <= minute_) {
      job.stopping = false;
      job.places.clear();
    }
  }
}

void ClusterPlayer::Scan() {
  snapshot_.now = Now();
  snapshot_.cpu_spare_since = spare_since_;
  std::vector<std::set<int>> taken(scenario_.workers.size());
  snapshot_.running.clear();
  snapshot_.jobs.clear();
  queued_.clear();
  running_.clear();
  std::vector<int> shown(scenario_.queues.size());
  memory_.BeginHearing();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const PlannedJob& planned = scenario_.jobs[i];
    Job& job = jobs_[i];
    if (!job.arrived || job.done) continue;
    const auto number = static_cast<int64_t>(i);
    if (job.running()) {
      RunningJob told;
      told.serial = number;
      told.priority = planned.priority;
      told.queue = planned.queue;
      told.user = planned.user;
      told.processes = static_cast<int32_t>(job.places.size());
      told.usable_processes = told.processes;
      told.sizes = planned.sizes;
      told.preemptible = planned.preemptible;
      told.stopping = job.stopping;
      if (job.stopping && job.resizing) told.kept_processes = job.target;
      told.started = Now() - absl::Minutes(minute_ - job.started);
      const double left = job.work / told.processes;
      if (planned.word == PlannedJob::kLimit) {
        told.expected_end = Now() + absl::Minutes(left + planned.length);
      } else if (planned.word != PlannedJob::kSilent) {
        const PassMemory::Told eta = {number, job.attempt,
                                      planned.word == PlannedJob::kLie
                                          ? absl::Minutes(1)
                                          : absl::Minutes(left)};
        memory_.Hear(eta, Now());
        told.expected_end = memory_.EndOf(eta, Now());
      }
      for (const MemberPlace& place : job.places) {
        if (!taken[place.worker].insert(place.slot).second) {
          Fail("a slot is used once", absl::StrCat("job ", i));
        }
      }
      running_.push_back(static_cast<int>(i));
      snapshot_.running.push_back(told);
      continue;
    }
    if (scenario_.kind == Scenario::kBacklog &&
        ++shown[planned.queue] > kShownBacklog) {
      continue;
    }
    PendingJob told;
    told.serial = number;
    told.priority = planned.priority;
    told.queue = planned.queue;
    told.user = planned.user;
    told.waiting_since = Now() - absl::Minutes(minute_ - planned.minute);
    told.resizing = job.resizing;
    told.granted = memory_.GrantedTo(number);
    told.processes = planned.processes;
    for (int32_t size : planned.sizes) {
      if (job.target == 0 || size <= job.target) told.sizes.push_back(size);
    }
    if (!told.sizes.empty()) told.processes = told.sizes.front();
    const double left = job.work / told.processes;
    if (planned.word == PlannedJob::kLimit) {
      told.duration = absl::Minutes(left + planned.length);
    } else if (planned.word == PlannedJob::kEstimate && job.attempt > 0) {
      told.duration = absl::Minutes(left);
    }
    queued_.push_back(static_cast<int>(i));
    snapshot_.jobs.push_back(told);
  }
  memory_.EndHearing();
  snapshot_.workers.clear();
  for (size_t w = 0; w < scenario_.workers.size(); ++w) {
    const PlannedWorker& planned = scenario_.workers[w];
    WorkerSlots room;
    room.rack = planned.rack;
    room.total_cpu = planned.slots;
    for (int slot = 0; slot < planned.slots; ++slot) {
      if (taken[w].count(slot) > 0) continue;
      if (!IsUnfit(static_cast<int>(w), slot)) {
        room.free_cpu.push_back(slot);
        continue;
      }
      ++room.unfit_cpu;
      if (minute_ - planned.unfit_from > 2) ++room.lasting_unfit_cpu;
    }
    snapshot_.workers.push_back(room);
  }
}

void ClusterPlayer::Carry(const Decision& decision) {
  for (const Placement& placement : decision.placements) {
    Job& job = jobs_[queued_[placement.job]];
    job.places = placement.members;
    job.started = minute_;
    job.resizing = false;
    job.freed_for = 0;
    ++job.attempt;
  }
  std::map<int, int> freed;
  for (const StopOrder& order : decision.stops) {
    Job& job = jobs_[running_[order.running]];
    job.stopping = true;
    job.stops = minute_ + kStopMinutes;
    if (order.job >= 0) {
      freed[queued_[order.job]] +=
          static_cast<int>(job.places.size()) - order.processes;
    }
    if (order.kind == StopOrder::kPreempt) {
      job.displaced_by = queued_[order.job];
      job.displaced_at = minute_;
      job.preempted_at.push_back(minute_);
      job.target = 0;
      last_preemption_ = minute_;
      ++played_.preemptions;
    } else {
      job.resizing = true;
      job.target = order.processes;
      ++played_.resizes;
    }
  }
  for (const auto& [job, slots] : freed) {
    jobs_[job].freed_for += std::min(slots, least(job));
  }
  memory_.Note(snapshot_, decision);
  if (!decision.cpu_spare) {
    spare_since_ = absl::InfiniteFuture();
  } else if (spare_since_ == absl::InfiniteFuture()) {
    spare_since_ = Now();
  }
}

std::map<int, int> ClusterPlayer::Used() const {
  std::map<int, int> used;
  for (const RunningJob& job : snapshot_.running) {
    used[job.queue] += job.processes;
  }
  return used;
}

bool ClusterPlayer::IsOwed(const PendingJob& job,
                           const std::map<int, int>& used) const {
  const auto it = used.find(job.queue);
  return (it == used.end() ? 0 : it->second) + job.min_processes() <=
         snapshot_.queues[job.queue].guaranteed_processes;
}

}  // namespace comera::server
