// Plays the scheduler's decisions on a simulated cluster, and holds each to the
// rules of docs/scheduling.md.
#ifndef COMERA_TESTS_SERVER_SCHEDULER_CLUSTER_PLAYER_H_
#define COMERA_TESTS_SERVER_SCHEDULER_CLUSTER_PLAYER_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/scheduler/pass_memory.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/scheduler/scenario.h"

namespace comera::server {

// A rule that was broken.
struct Violation {
  std::string rule;
  int minute = 0;
  std::string what;
};

using Decider = std::function<Decision(const ClusterSnapshot&)>;

// What happened, for tests that want to see that anything did.
struct Played {
  std::optional<Violation> violation;
  int minutes = 0;
  int passes = 0;
  int finished = 0;
  int preemptions = 0;
  int resizes = 0;
};

// One play of a scenario, minute by minute. An object is used once.
class ClusterPlayer {
 public:
  // The scenario must outlive this.
  ClusterPlayer(const Scenario& scenario, Decider decide);

  // Ends at the first violation, when all jobs have ended, or after the
  // scenario's minutes.
  Played Play();

 private:
  struct Job {
    double work = 0;  // process-minutes left
    bool arrived = false, done = false;
    int attempt = 0;
    int target = 0;
    bool resizing = false;
    // While it runs.
    std::vector<MemberPlace> places;
    int started = 0;
    bool stopping = false;
    int stops = 0;
    // The job that took its slots last, and the minute.
    int displaced_by = -1;
    int displaced_at = 0;
    std::vector<int> preempted_at;
    // Slots that others gave up for it since it last started, no more than it
    // needs of each decision.
    int freed_for = 0;
    // Since when its queue could have had what is owed, or a lower one could
    // have made room for it, without anything like it being started.
    int ignored_since = -1;

    bool running() const { return !places.empty(); }
  };

  const PlannedJob& plan(int job) const { return scenario_.jobs[job]; }
  int least(int job) const { return plan(job).min_processes(); }
  absl::Time Now() const;
  bool IsUnfit(int worker, int slot) const;
  int FitSlots() const;

  void Advance();
  bool AllDone() const;
  // Fills snapshot_, queued_ and running_.
  void Scan();
  void Carry(const Decision& decision);

  void Fail(const std::string& rule, const std::string& what);
  // The rules, checked on one decision before it is carried out.
  void CheckPlacements(const Decision& decision);
  void CheckEveryJobIsDecided(const Decision& decision);
  void CheckStops(const Decision& decision);
  void CheckOrder(const Decision& decision);
  void CheckNoRoomIdles(const Decision& decision);
  void CheckPreemptionsEnd(const Decision& decision);
  void CheckGrowth(const Decision& decision);
  // The rules about time, checked after it was carried out.
  void CheckGuarantees();
  void CheckUrgentJobsPreempt();
  void CheckStarvation();
  void CountShares();
  void CheckShares();

  bool IsOwed(const PendingJob& job, const std::map<int, int>& used) const;
  std::map<int, int> Used() const;

  const Scenario& scenario_;
  const Decider decide_;
  PassMemory memory_;
  int minute_ = 0;
  std::vector<Job> jobs_;
  ClusterSnapshot snapshot_;
  // Jobs by position in the snapshot.
  std::vector<int> queued_, running_;
  absl::Time spare_since_ = absl::InfiniteFuture();
  int idle_minutes_ = 0;
  int last_preemption_ = 0;
  // By queue: since when owed demand could have been met, and nothing was.
  std::map<int, int> unmet_since_;
  // Arrivals and ends, by minute.
  std::vector<int> events_;
  std::vector<double> shares_;
  int counted_ = 0;
  Played played_;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SCHEDULER_CLUSTER_PLAYER_H_
