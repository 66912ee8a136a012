// Snapshots for tests of the scheduler, in few words.
#ifndef COMERA_TESTS_SERVER_SCHEDULER_CLUSTER_BUILDER_H_
#define COMERA_TESTS_SERVER_SCHEDULER_CLUSTER_BUILDER_H_

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "server/scheduler/scheduler.h"

namespace comera::server {

// A cluster of CPU slots at an hour when everything is old enough to be
// preempted unless a test says otherwise.
class ClusterBuilder {
 public:
  ClusterBuilder() { snapshot.now = absl::FromUnixSeconds(1'000'000); }

  // Returns the worker's position. The first `busy` slots are taken.
  int Worker(int slots, int busy = 0, int rack = -1) {
    WorkerSlots room;
    room.rack = rack;
    room.total_cpu = slots;
    for (int i = busy; i < slots; ++i) room.free_cpu.push_back(i);
    snapshot.workers.push_back(room);
    return static_cast<int>(snapshot.workers.size()) - 1;
  }

  // Returns the queue's position; 0 is there.
  int Queue(int guaranteed, double weight = 1, int limit = 1 << 30) {
    snapshot.queues.push_back({guaranteed, limit, weight});
    return static_cast<int>(snapshot.queues.size()) - 1;
  }

  PendingJob& Job(int processes, int priority = 0) {
    PendingJob job;
    job.serial = ++serial;
    job.priority = priority;
    job.processes = processes;
    job.waiting_since = snapshot.now;
    snapshot.jobs.push_back(job);
    return snapshot.jobs.back();
  }

  // Holds slots that are not in the workers' free ones.
  RunningJob& Running(int processes, int priority = 0) {
    RunningJob job;
    job.serial = ++serial;
    job.priority = priority;
    job.processes = job.usable_processes = processes;
    job.started = snapshot.now - absl::Hours(1);
    snapshot.running.push_back(job);
    return snapshot.running.back();
  }

  Decision Decide() const { return Scheduler::Decide(snapshot); }

  ClusterSnapshot snapshot;
  int64_t serial = 0;
};

inline std::vector<int> Placed(const Decision& decision) {
  std::vector<int> jobs;
  for (const Placement& placement : decision.placements) {
    jobs.push_back(placement.job);
  }
  return jobs;
}

inline std::vector<int> WorkersOf(const Placement& placement) {
  std::vector<int> workers;
  for (const MemberPlace& place : placement.members) {
    workers.push_back(place.worker);
  }
  return workers;
}

// Running jobs that are to stop.
inline std::vector<int> Stopped(const Decision& decision) {
  std::vector<int> jobs;
  for (const StopOrder& order : decision.stops) jobs.push_back(order.running);
  return jobs;
}

// The reason why the job waits; empty if it does not wait.
inline std::string ReasonOf(const Decision& decision, int job) {
  for (const WaitingJob& waiting : decision.waiting) {
    if (waiting.job == job) return waiting.reason.Text();
  }
  return "";
}

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SCHEDULER_CLUSTER_BUILDER_H_
