// Tests what must hold for every cluster and every trace: whole gangs on free
// slots, quotas kept, nobody starved, no preemption without end, nothing idle.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/server/scheduler/cluster_builder.h"

namespace comera::server {
namespace {

constexpr uint32_t kSeeds[] = {1, 20240607, 77, 4711, 90210, 31337, 5, 6};

struct TraceJob {
  int64_t serial = 0;
  int32_t priority = 0, queue = 0, user = 0, processes = 1;
  std::vector<int32_t> sizes;
  absl::Time arrival;
  double work = 0;  // rank-seconds left
  bool tells_duration = false;
  // While it runs.
  std::vector<MemberPlace> places;
  absl::Time started, stops = absl::InfiniteFuture();
  bool stopping = false, resizing = false;
  int32_t target = 0;
  int starts = 0, preemptions = 0;

  absl::Duration left(int32_t with) const { return absl::Seconds(work / with); }
};

// A cluster that obeys the scheduler's decisions, minute by minute, and checks
// each.
class Trace {
 public:
  explicit Trace(uint32_t seed) : random_(seed) {
    cluster_.snapshot.options.min_run_time = absl::Minutes(5);
    const int workers = 2 + Below(5);
    for (int i = 0; i < workers; ++i) {
      const int slots = 1 + Below(8);
      cluster_.Worker(slots, 0, Below(3) - 1);
      total_ += slots;
    }
    cluster_.Queue(total_ / 4, 2);
    cluster_.Queue(total_ / 4, 1, std::max(1, total_ / 2));
    for (const WorkerSlots& room : cluster_.snapshot.workers) {
      slots_.push_back(room.free_cpu);
    }
  }

  void Arrive(int32_t processes, int32_t priority) {
    TraceJob job;
    job.serial = ++serial_;
    job.processes = processes;
    job.priority = priority;
    job.queue = Below(3);
    job.user = Below(3);
    job.arrival = now_;
    job.work = processes * (30.0 + Below(1800));
    job.tells_duration = Below(2) == 0;
    if (Below(3) == 0 && processes >= 2)
      job.sizes = {processes, (processes + 1) / 2, 1};
    if (job.sizes.size() == 3 && job.sizes[1] == 1) job.sizes.pop_back();
    waiting_.push_back(job);
  }

  void ArriveAtRandom() {
    while (Below(3) == 0) Arrive(1 + Below(total_), Below(3));
  }

  void Minute() {
    now_ += absl::Minutes(1);
    std::vector<TraceJob> still;
    for (TraceJob& job : running_) {
      const double step = 60.0 * job.places.size();
      job.work -= std::min(job.work, step);
      if (job.work <= 0) {
        ++finished_;
        longest_wait_ = std::max(longest_wait_, job.starts);
        most_preemptions_ = std::max(most_preemptions_, job.preemptions);
        continue;
      }
      if (job.stopping && job.stops <= now_) {
        job.stopping = false;
        job.places.clear();
        waiting_.push_back(job);
        continue;
      }
      still.push_back(job);
    }
    running_ = std::move(still);
    Schedule();
  }

  void Schedule() {
    ClusterSnapshot& snapshot = cluster_.snapshot;
    snapshot.now = now_;
    snapshot.cpu_spare_since = spare_since_;
    std::sort(waiting_.begin(), waiting_.end(),
              [](const TraceJob& a, const TraceJob& b) {
                return a.serial < b.serial;
              });
    Fill(&snapshot);
    const Decision decision = Scheduler::Decide(snapshot);
    Check(decision);
    std::set<int> placed;
    for (const Placement& placement : decision.placements) {
      TraceJob job = waiting_[placement.job];
      placed.insert(placement.job);
      job.places = placement.members;
      job.started = now_;
      job.resizing = false;
      ++job.starts;
      running_.push_back(std::move(job));
    }
    for (const StopOrder& order : decision.stops) {
      TraceJob& job = running_[order.running];
      job.stopping = true;
      job.stops = now_ + absl::Minutes(1);
      if (order.kind == StopOrder::kPreempt) {
        ++job.preemptions;
        ++preemptions_;
      } else {
        job.resizing = true;
        job.target = order.processes;
        ++resizes_;
      }
    }
    std::vector<TraceJob> left;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (placed.count(static_cast<int>(i)) == 0) left.push_back(waiting_[i]);
    }
    waiting_ = std::move(left);
    if (!decision.cpu_spare) {
      spare_since_ = absl::InfiniteFuture();
    } else if (spare_since_ == absl::InfiniteFuture()) {
      spare_since_ = now_;
    }
  }

  int Below(int n) { return static_cast<int>(random_() % n); }
  bool Idle() const { return waiting_.empty() && running_.empty(); }
  int total() const { return total_; }
  int finished() const { return finished_; }
  int preemptions() const { return preemptions_; }
  int resizes() const { return resizes_; }
  int most_preemptions() const { return most_preemptions_; }
  const std::vector<TraceJob>& waiting() const { return waiting_; }
  const std::vector<TraceJob>& running() const { return running_; }
  int64_t serial() const { return serial_; }

 private:
  void Fill(ClusterSnapshot* snapshot) {
    std::vector<std::set<int32_t>> free(slots_.size());
    for (size_t i = 0; i < slots_.size(); ++i) {
      free[i].insert(slots_[i].begin(), slots_[i].end());
    }
    snapshot->running.clear();
    for (const TraceJob& job : running_) {
      RunningJob& told = cluster_.Running(0, job.priority);
      told.serial = job.serial;
      told.queue = job.queue;
      told.user = job.user;
      told.processes = told.usable_processes =
          static_cast<int>(job.places.size());
      told.sizes = job.sizes;
      told.started = job.started;
      told.stopping = job.stopping;
      if (job.stopping && job.resizing) told.kept_processes = job.target;
      if (job.tells_duration) {
        told.expected_end = now_ + job.left(told.processes);
      }
      for (const MemberPlace& place : job.places) {
        ASSERT_EQ(free[place.worker].erase(place.slot), 1u)
            << "a slot with two ranks";
      }
    }
    for (size_t i = 0; i < free.size(); ++i) {
      snapshot->workers[i].free_cpu.assign(free[i].begin(), free[i].end());
    }
    snapshot->jobs.clear();
    for (const TraceJob& job : waiting_) {
      PendingJob& told = cluster_.Job(job.processes, job.priority);
      told.serial = job.serial;
      told.queue = job.queue;
      told.user = job.user;
      told.waiting_since = job.arrival;
      told.resizing = job.resizing;
      if (job.tells_duration) told.duration = job.left(job.processes);
      for (int32_t size : job.sizes) {
        if (job.target == 0 || size <= job.target) told.sizes.push_back(size);
      }
      if (!told.sizes.empty()) told.processes = told.sizes.front();
    }
  }

  void Check(const Decision& decision) {
    const ClusterSnapshot& snapshot = cluster_.snapshot;
    std::map<int, int> used;
    size_t free = 0;
    for (const RunningJob& job : snapshot.running)
      used[job.queue] += job.processes;
    std::set<std::pair<int32_t, int32_t>> slots;
    for (size_t i = 0; i < snapshot.workers.size(); ++i) {
      for (int32_t slot : snapshot.workers[i].free_cpu) {
        slots.insert({static_cast<int32_t>(i), slot});
      }
    }
    free = slots.size();
    std::set<int> decided;
    for (const Placement& placement : decision.placements) {
      const PendingJob& job = snapshot.jobs[placement.job];
      EXPECT_TRUE(decided.insert(placement.job).second);
      const auto processes = static_cast<int32_t>(placement.members.size());
      if (job.sizes.empty()) {
        EXPECT_EQ(processes, job.processes) << "half a gang";
      } else {
        EXPECT_EQ(std::count(job.sizes.begin(), job.sizes.end(), processes), 1);
      }
      for (const MemberPlace& place : placement.members) {
        // Erasing proves that it was free and is used once.
        EXPECT_EQ(slots.erase({place.worker, place.slot}), 1u);
      }
      used[job.queue] += processes;
      EXPECT_LE(used[job.queue], snapshot.queues[job.queue].limit);
    }
    for (const WaitingJob& waiting : decision.waiting) {
      EXPECT_TRUE(decided.insert(waiting.job).second);
      EXPECT_FALSE(waiting.reason.Text().empty());
    }
    EXPECT_EQ(decided.size(), snapshot.jobs.size());
    // Work-conserving: the first of all is not left waiting in front of room.
    if (decision.placements.empty() && decision.stops.empty() && free > 0) {
      for (const WaitingJob& waiting : decision.waiting) {
        const PendingJob& job = snapshot.jobs[waiting.job];
        if (waiting.reason.kind != WaitReason::kNoRoom) continue;
        EXPECT_LT(free, static_cast<size_t>(job.min_processes()));
      }
    }
    std::set<int32_t> stopped;
    for (const StopOrder& order : decision.stops) {
      const RunningJob& victim = snapshot.running[order.running];
      EXPECT_TRUE(stopped.insert(order.running).second);
      EXPECT_FALSE(victim.stopping);
      EXPECT_GE(now_ - victim.started, snapshot.options.min_run_time);
      if (order.kind != StopOrder::kPreempt) continue;
      const PendingJob& job = snapshot.jobs[order.job];
      // What was taken is never taken back: a strict order among jobs.
      const bool lower = victim.priority < job.priority;
      const bool borrowed = victim.queue != job.queue;
      EXPECT_TRUE(lower || borrowed);
    }
    // Whoever is told to wait for room that comes has it coming.
    EXPECT_EQ(decision.more, false);
  }

  std::mt19937 random_;
  ClusterBuilder cluster_;
  std::vector<std::vector<int32_t>> slots_;
  int total_ = 0;
  absl::Time now_ = absl::FromUnixSeconds(2'000'000);
  absl::Time spare_since_ = absl::InfiniteFuture();
  std::vector<TraceJob> waiting_, running_;
  int64_t serial_ = 0;
  int finished_ = 0, preemptions_ = 0, resizes_ = 0;
  int longest_wait_ = 0, most_preemptions_ = 0;
};

class SchedulerProperty : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SchedulerProperty, EveryAcceptedJobEndsOnceArrivalsStop) {
  SCOPED_TRACE(GetParam());
  Trace trace(GetParam());
  for (int minute = 0; minute < 600; ++minute) {
    trace.ArriveAtRandom();
    trace.Minute();
    if (::testing::Test::HasFailure()) return;
  }
  // Jobs beyond their queue's limit wait for ever; the others end.
  int minutes = 0;
  const auto done = [&] {
    return trace.running().empty() &&
           std::all_of(trace.waiting().begin(), trace.waiting().end(),
                       [&](const TraceJob& job) {
                         const int least = job.sizes.empty() ? job.processes
                                                             : job.sizes.back();
                         return job.queue == 2 &&
                                least > std::max(1, trace.total() / 2);
                       });
  };
  while (!done() && minutes < 60000) {
    trace.Minute();
    ++minutes;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(done()) << trace.waiting().size() << " left";
  EXPECT_GT(trace.finished(), 0);
}

// A gang that needs all that is nobody's guarantee, among endless small jobs.
TEST_P(SchedulerProperty, LargeGangIsNotStarvedBySmallJobs) {
  SCOPED_TRACE(GetParam());
  Trace trace(GetParam());
  for (int i = 0; i < trace.total(); ++i) trace.Arrive(1, 0);
  trace.Schedule();
  trace.Arrive(trace.total() - 2 * (trace.total() / 4), 0);
  const int64_t gang = trace.serial();
  int minutes = 0;
  const auto waits = [&] {
    return std::any_of(trace.waiting().begin(), trace.waiting().end(),
                       [&](const TraceJob& job) { return job.serial == gang; });
  };
  const bool too_large_for_its_queue = [&] {
    return trace.waiting().back().queue == 2;
  }();
  if (too_large_for_its_queue) return;
  while (waits() && minutes < 24 * 60) {
    while (trace.waiting().size() < 60) trace.Arrive(1, 0);
    trace.Minute();
    ++minutes;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_LT(minutes, 8 * 60) << "patience is six hours";
}

// All that can preempt each other is there for good; the trace must come to
// rest although nobody ends.
TEST_P(SchedulerProperty, Complaint08_PreemptionComesToRest) {
  SCOPED_TRACE(GetParam());
  Trace trace(GetParam());
  for (int i = 0; i < 3 * trace.total(); ++i) {
    trace.Arrive(1 + trace.Below(std::max(1, trace.total() / 3)),
                 trace.Below(4));
  }
  for (TraceJob& job : const_cast<std::vector<TraceJob>&>(trace.waiting())) {
    job.work = 1e12;
  }
  for (int minute = 0; minute < 400; ++minute) trace.Minute();
  const int preemptions = trace.preemptions(), resizes = trace.resizes();
  for (int minute = 0; minute < 400; ++minute) trace.Minute();
  EXPECT_EQ(trace.preemptions(), preemptions);
  EXPECT_EQ(trace.resizes(), resizes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerProperty, ::testing::ValuesIn(kSeeds));

}  // namespace
}  // namespace comera::server
