#ifndef COMERA_TESTS_BENCH_SCHEDULE_SIMULATION_H_
#define COMERA_TESTS_BENCH_SCHEDULE_SIMULATION_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/scheduler/scheduler.h"
#include "tests/bench/schedule_trace.h"

namespace comera::bench {

enum class Policy {
  // The service's own scheduler, Scheduler::Decide.
  kComera,
  // Jobs by priority, then in order of arrival; none overtakes, none is
  // stopped.
  kFifo,
};

struct SimulationOptions {
  int workers = 1000;
  int gpus_per_worker = 8;
  int workers_per_rack = 16;
  // Simulated time between two passes.
  absl::Duration interval = absl::Seconds(30);
  // The time that stopping and restarting costs a job.
  absl::Duration stop_time = absl::Seconds(20);
  absl::Duration restart_time = absl::Seconds(60);
  Policy policy = Policy::kComera;
  server::SchedulerOptions scheduler;
};

struct SimulationResult {
  // The processor time of each pass.
  std::vector<double> pass_ms;
  int64_t longest_queue = 0;
  double makespan_hours = 0;
  // The share of the slots in use between the first and the last arrival.
  double utilisation = 0;
  // Waits in seconds by class of width: "1", "2-8", "9-64", "65-".
  std::map<std::string, std::vector<double>> waits;
  // The waits of jobs with the highest priority.
  std::vector<double> urgent_waits;
  // Jain's index (1: equal) of slots in use over weight, among the queues with
  // waiting jobs; the mean over all passes in which several queues have some.
  double share_fairness = 0;
  // Jain's index over users of their mean bounded slowdown: low if users who
  // ask for more than their share wait for it.
  double slowdown_fairness = 0;
  double mean_slowdown = 0;
  int64_t preemptions = 0;
  int64_t resizes = 0;
  int64_t finished = 0;
};

// Runs the trace to its end, event by event, with all GPUs in one pool.
// `progress` is called from time to time with the number of jobs that have
// ended.
SimulationResult Simulate(const std::vector<TraceJob>& trace,
                          const SimulationOptions& options,
                          const std::function<void(int64_t)>& progress);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SCHEDULE_SIMULATION_H_
