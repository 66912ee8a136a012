// Simulates arrivals, progress and ends of jobs under a scheduling policy.

#include "tests/bench/schedule_simulation.h"

#include <time.h>

#include <algorithm>
#include <set>

namespace comera::bench {
namespace {

using server::ClusterSnapshot;
using server::Decision;
using server::MemberPlace;
using server::PendingJob;
using server::RunningJob;
using server::StopOrder;

// The lower bound of the run time from which slowdowns are computed.
constexpr double kBoundSeconds = 600;

double ProcessorMs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) +
         1e-6 * static_cast<double>(time.tv_nsec);
}

class Simulation {
 public:
  Simulation(const std::vector<TraceJob>& trace,
             const SimulationOptions& options)
      : trace_(trace), options_(options), jobs_(trace.size()) {
    const int slots = options.workers * options.gpus_per_worker;
    for (int w = 0; w < options.workers; ++w) {
      server::WorkerSlots room;
      room.rack = w / options.workers_per_rack;
      room.total_gpu = options.gpus_per_worker;
      for (int i = 0; i < options.gpus_per_worker; ++i) {
        room.free_gpu.push_back(i);
      }
      snapshot_.workers.push_back(std::move(room));
    }
    int queues = 1;
    for (const TraceJob& job : trace) queues = std::max(queues, job.queue + 1);
    snapshot_.queues.clear();
    for (int q = 0; q < queues; ++q) {
      snapshot_.queues.push_back(
          {slots / (2 * queues), 1 << 30, q % 2 == 0 ? 1.0 : 2.0});
    }
    snapshot_.options = options.scheduler;
    capacity_ = slots;
  }

  SimulationResult Run(const std::function<void(int64_t)>& progress) {
    now_ = trace_.front().arrival;
    size_t next = 0;
    absl::Time last_arrival = trace_.back().arrival;
    while (result_.finished < static_cast<int64_t>(trace_.size())) {
      while (next < trace_.size() && trace_[next].arrival <= now_) {
        jobs_[next].work = absl::ToDoubleSeconds(trace_[next].run_time) *
                           trace_[next].processes;
        waiting_.insert(Key(next));
        ++next;
      }
      EndThoseDue();
      result_.longest_queue =
          std::max<int64_t>(result_.longest_queue, waiting_.size());
      if (options_.policy == Policy::kFifo) {
        ServeFifo();
      } else {
        do Serve();
        while (more_);
      }
      CompareShares();
      if (++ticks_ % 256 == 0) progress(result_.finished);
      // Skips to the next time at which something happens.
      absl::Time wake = now_ + options_.interval;
      if (waiting_.empty() && running_.empty() && next < trace_.size()) {
        wake = std::max(wake, trace_[next].arrival);
      }
      if (now_ < last_arrival) {
        used_ +=
            absl::ToDoubleSeconds(std::min(wake, last_arrival) - now_) * busy_;
      }
      now_ = wake;
    }
    Finish(last_arrival);
    return std::move(result_);
  }

 private:
  struct State {
    // The member-seconds of work left.
    double work = 0;
    absl::Time started, ends = absl::InfiniteFuture(),
                        stops = absl::InfiniteFuture();
    absl::Time first_start = absl::InfiniteFuture();
    absl::Time finished;
    std::vector<MemberPlace> places;
    int32_t target = 0;
    bool stopping = false, resizing = false;
  };
  // The pair (-priority, number).
  using Order = std::pair<int32_t, int32_t>;
  Order Key(size_t job) const {
    return {-trace_[job].priority, static_cast<int32_t>(job)};
  }

  void Place(int32_t number, std::vector<MemberPlace> places) {
    State& job = jobs_[number];
    const bool again = job.first_start != absl::InfiniteFuture();
    job.first_start = std::min(job.first_start, now_);
    job.started = now_;
    job.resizing = job.stopping = false;
    job.places = std::move(places);
    const auto processes = static_cast<double>(job.places.size());
    job.ends = now_ + absl::Seconds(job.work / processes) +
               (again ? options_.restart_time : absl::ZeroDuration());
    busy_ += static_cast<int64_t>(job.places.size());
    running_.insert(number);
  }

  void Leave(int32_t number) {
    State& job = jobs_[number];
    busy_ -= static_cast<int64_t>(job.places.size());
    for (const MemberPlace& place : job.places) {
      std::vector<int32_t>& free = snapshot_.workers[place.worker].free_gpu;
      free.insert(std::lower_bound(free.begin(), free.end(), place.slot),
                  place.slot);
    }
    job.places.clear();
    running_.erase(number);
  }

  void EndThoseDue() {
    std::vector<int32_t> due;
    for (int32_t number : running_) {
      const State& job = jobs_[number];
      if (std::min(job.ends, job.stops) <= now_) due.push_back(number);
    }
    for (int32_t number : due) {
      State& job = jobs_[number];
      if (job.ends <= job.stops) {
        job.finished = job.ends;
        ++result_.finished;
        Leave(number);
        continue;
      }
      job.work = std::max(1.0, absl::ToDoubleSeconds(job.ends - job.stops) *
                                   static_cast<double>(job.places.size()));
      job.ends = job.stops = absl::InfiniteFuture();
      Leave(number);
      waiting_.insert(Key(number));
    }
  }

  void Serve() {
    const double begin = ProcessorMs();
    std::vector<int32_t> waiting, running(running_.begin(), running_.end());
    snapshot_.now = now_;
    snapshot_.gpu_spare_since = spare_since_;
    snapshot_.jobs.clear();
    for (const auto& [priority, number] : waiting_) {
      waiting.push_back(number);
      snapshot_.jobs.push_back(Pending(number));
    }
    snapshot_.running.clear();
    for (int32_t number : running) snapshot_.running.push_back(Running(number));
    const Decision decision = server::Scheduler::Decide(snapshot_);
    result_.pass_ms.push_back(ProcessorMs() - begin);
    for (const server::Placement& placement : decision.placements) {
      const int32_t number = waiting[placement.job];
      for (const MemberPlace& place : placement.members) {
        std::vector<int32_t>& free = snapshot_.workers[place.worker].free_gpu;
        free.erase(std::lower_bound(free.begin(), free.end(), place.slot));
      }
      waiting_.erase(Key(number));
      Place(number, placement.members);
    }
    for (const StopOrder& order : decision.stops) {
      State& job = jobs_[running[order.running]];
      job.stopping = true;
      job.stops = now_ + options_.stop_time;
      job.resizing = order.kind != StopOrder::kPreempt;
      if (job.resizing) job.target = order.processes;
      ++(job.resizing ? result_.resizes : result_.preemptions);
    }
    more_ = decision.more;
    if (!decision.gpu_spare) {
      spare_since_ = absl::InfiniteFuture();
    } else if (spare_since_ == absl::InfiniteFuture()) {
      spare_since_ = now_;
    }
  }

  PendingJob Pending(int32_t number) const {
    const TraceJob& given = trace_[number];
    const State& state = jobs_[number];
    PendingJob job;
    job.serial = number;
    job.priority = given.priority;
    job.queue = given.queue;
    job.user = given.user;
    job.device = v1::ResourceSpec::GPU;
    job.processes = given.processes;
    for (int32_t size : given.sizes) {
      if (state.target == 0 || size <= state.target) job.sizes.push_back(size);
    }
    if (!job.sizes.empty()) job.processes = job.sizes.front();
    job.waiting_since = given.arrival;
    job.duration = given.time_limit;
    job.resizing = state.resizing;
    return job;
  }

  RunningJob Running(int32_t number) const {
    const TraceJob& given = trace_[number];
    const State& state = jobs_[number];
    RunningJob job;
    job.serial = number;
    job.priority = given.priority;
    job.queue = given.queue;
    job.user = given.user;
    job.gpu = true;
    job.processes = job.usable_processes =
        static_cast<int32_t>(state.places.size());
    job.sizes = given.sizes;
    job.stopping = state.stopping;
    if (state.stopping && state.resizing) job.kept_processes = state.target;
    job.started = state.started;
    if (given.time_limit != absl::InfiniteDuration()) {
      job.expected_end = state.ends + (given.time_limit - given.run_time);
    }
    return job;
  }

  void ServeFifo() {
    while (!waiting_.empty()) {
      const int32_t number = waiting_.begin()->second;
      const int32_t processes = trace_[number].processes;
      if (processes > capacity_ - busy_) return;
      std::vector<MemberPlace> places;
      for (size_t w = 0; static_cast<int32_t>(places.size()) < processes; ++w) {
        std::vector<int32_t>& free = snapshot_.workers[w].free_gpu;
        while (!free.empty() &&
               static_cast<int32_t>(places.size()) < processes) {
          places.push_back({static_cast<int32_t>(w), free.back()});
          free.pop_back();
        }
      }
      waiting_.erase(waiting_.begin());
      Place(number, std::move(places));
    }
  }

  void CompareShares() {
    std::vector<double> shares(snapshot_.queues.size());
    std::vector<bool> waits(shares.size());
    for (const auto& [priority, number] : waiting_) {
      waits[trace_[number].queue] = true;
    }
    for (int32_t number : running_) {
      const int32_t queue = trace_[number].queue;
      shares[queue] += static_cast<double>(jobs_[number].places.size()) /
                       snapshot_.queues[queue].weight;
    }
    double sum = 0, squares = 0, count = 0;
    for (size_t q = 0; q < shares.size(); ++q) {
      if (!waits[q]) continue;
      sum += shares[q];
      squares += shares[q] * shares[q];
      ++count;
    }
    if (count < 2 || squares == 0) return;
    share_sum_ += sum * sum / (count * squares);
    ++share_count_;
  }

  void Finish(absl::Time last_arrival) {
    result_.share_fairness = share_count_ == 0 ? 1 : share_sum_ / share_count_;
    const absl::Time begin = trace_.front().arrival;
    result_.makespan_hours = absl::ToDoubleHours(now_ - begin);
    result_.utilisation =
        used_ / (absl::ToDoubleSeconds(last_arrival - begin) * capacity_);
    std::map<int32_t, std::pair<double, int64_t>> users;
    double total = 0;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const TraceJob& given = trace_[i];
      const double wait =
          absl::ToDoubleSeconds(jobs_[i].first_start - given.arrival);
      const char* width = given.processes == 1    ? "1"
                          : given.processes <= 8  ? "2-8"
                          : given.processes <= 64 ? "9-64"
                                                  : "65-";
      result_.waits[width].push_back(wait);
      if (given.priority == 100) result_.urgent_waits.push_back(wait);
      const double run = absl::ToDoubleSeconds(given.run_time);
      const double turnaround =
          absl::ToDoubleSeconds(jobs_[i].finished - given.arrival);
      const double slowdown =
          std::max(1.0, turnaround / std::max(run, kBoundSeconds));
      users[given.user].first += slowdown;
      ++users[given.user].second;
      total += slowdown;
    }
    result_.mean_slowdown = total / static_cast<double>(jobs_.size());
    double sum = 0, squares = 0;
    for (const auto& [user, slowdowns] : users) {
      const double mean =
          slowdowns.first / static_cast<double>(slowdowns.second);
      sum += mean;
      squares += mean * mean;
    }
    result_.slowdown_fairness =
        sum * sum / (static_cast<double>(users.size()) * squares);
  }

  const std::vector<TraceJob>& trace_;
  const SimulationOptions options_;
  ClusterSnapshot snapshot_;
  int64_t capacity_ = 0;
  int64_t busy_ = 0;
  double used_ = 0;
  int64_t ticks_ = 0;
  double share_sum_ = 0, share_count_ = 0;
  bool more_ = false;
  absl::Time now_;
  absl::Time spare_since_ = absl::InfiniteFuture();
  std::vector<State> jobs_;
  std::set<Order> waiting_;
  std::set<int32_t> running_;
  SimulationResult result_;
};

}  // namespace

SimulationResult Simulate(const std::vector<TraceJob>& trace,
                          const SimulationOptions& options,
                          const std::function<void(int64_t)>& progress) {
  return Simulation(trace, options).Run(progress);
}

}  // namespace comera::bench
