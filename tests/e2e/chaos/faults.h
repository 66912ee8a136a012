#ifndef COMERA_TESTS_E2E_CHAOS_FAULTS_H_
#define COMERA_TESTS_E2E_CHAOS_FAULTS_H_

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/e2e/chaos/cluster.h"

namespace comera::e2e {

// Disturbs a cluster at random times, in random ways, and undoes it a random
// time later: SIGKILL and SIGSTOP of the coordinator, workers and members, full
// disks, jumps of the clock. A seed determines the decisions; their effect
// depends on what runs at the time. Not thread-safe.
class Faults {
 public:
  struct Options {
    uint64_t seed = 1;
    // The mean time between two faults.
    absl::Duration interval = absl::Seconds(3);
    // The file that shifts the clocks of the coordinator and the workers; empty
    // leaves their clocks alone.
    std::string clock_file;
    // The most seconds by which clocks are off.
    int clock_jump_s = 20;
  };

  // `note` gets a line per fault.
  Faults(const Options& options, ChaosCluster* cluster,
         std::function<void(const std::string&)> note);

  // Performs the actions that are due at `now`; call often.
  void Step(absl::Time now);
  // Undoes everything at once; Step() does nothing from then on.
  void Heal();
  // The number of faults of each kind.
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Undo {
    absl::Time when;
    std::string what;
    std::function<void()> action;
  };

  void Strike(absl::Time now);
  void StrikeProcess(int which, absl::Time now);
  void StrikeMember(absl::Time now);
  void FillDisk(absl::Time now);
  void MoveClock(absl::Time now);
  void Later(absl::Time when, std::string what, std::function<void()> action);
  absl::Duration Draw(absl::Duration low, absl::Duration high);
  int DrawInt(int n) { return static_cast<int>(random_() % n); }

  const Options options_;
  ChaosCluster* const cluster_;
  const std::function<void(const std::string&)> note_;
  std::mt19937_64 random_;
  bool healed_ = false;
  absl::Time next_ = absl::InfinitePast();
  std::vector<Undo> undo_;
  // Processes that are stopped or dead and therefore not chosen again.
  std::map<int, bool> down_;
  std::map<std::string, int> counts_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_FAULTS_H_
