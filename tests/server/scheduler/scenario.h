// Random clusters and histories for tests of the scheduler.
#ifndef COMERA_TESTS_SERVER_SCHEDULER_SCENARIO_H_
#define COMERA_TESTS_SERVER_SCHEDULER_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/scheduler/cluster_snapshot.h"

namespace comera::server {

// A worker with CPU slots only. Its last `unfit` slots are unfit from one
// minute on until another.
struct PlannedWorker {
  int slots = 1;
  int rack = -1;
  int unfit = 0;
  int unfit_from = 0;
  int unfit_until = 0;
};

struct PlannedJob {
  // What the job tells about its end: nothing, an honest estimate, a time limit
  // that it does not use up, or a minute for ever.
  enum Word { kSilent, kEstimate, kLimit, kLie };

  // The minute of its submission.
  int minute = 0;
  int queue = 0, user = 0, priority = 0, processes = 1;
  // See PendingJob.
  std::vector<int32_t> sizes;
  // How long it takes with all its processes.
  int length = 1;
  Word word = kSilent;
  bool preemptible = true;

  int min_processes() const { return sizes.empty() ? processes : sizes.back(); }
};

// A cluster and what happens to it. Jobs come by ascending minute, and are
// numbered in that order.
struct Scenario {
  enum Kind {
    // Anything, with guarantees and limits.
    kMixed,
    // The same without guarantees, so that priority alone decides who may stop
    // whom.
    kPriorities,
    // Owners want guaranteed slots that others borrow.
    kBorrowed,
    // Nobody ends: preemption must come to rest.
    kForever,
    // A wide job among endless small ones.
    kWide,
    // Weights of queues whose backlog is older than patience.
    kBacklog,
  };
  Kind kind = kMixed;
  std::vector<PlannedWorker> workers;
  std::vector<QueueShare> queues;
  std::vector<PlannedJob> jobs;
  // The last minute that is looked at.
  int minutes = 0;

  int slots() const;
  // The scenario as C++ statements that make it again.
  std::string Text() const;
};

// Equal arguments give equal scenarios.
Scenario MakeScenario(Scenario::Kind kind, uint64_t seed);

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SCHEDULER_SCENARIO_H_
