#ifndef COMERA_TESTS_E2E_CHAOS_FAULTS_H_
#define COMERA_TESTS_E2E_CHAOS_FAULTS_H_

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/e2e/chaos/cluster.h"
#include "tests/e2e/chaos/holder_away.h"
#include "tests/e2e/chaos/late_upload.h"
#include "tests/e2e/chaos/network.h"
#include "tests/e2e/chaos/proxy.h"

namespace comera::e2e {

// Disturbs a cluster at random times, in random ways, and undoes it a random
// time later: SIGKILL and SIGSTOP of coordinators, workers, members and the
// database, full, slow and failing disks, clocks that jump or are wrong from
// the start, networks that lose packets, delay them or go silent in one
// direction, second workers of the same name, workers that lose their disk,
// holders of checkpoints that are away when they are needed, uploads that
// arrive when their attempt is over. A seed determines the decisions; their
// effect depends on what runs at the time. Not thread-safe.
class Faults {
 public:
  struct Options {
    uint64_t seed = 1;
    // The mean time between two faults.
    absl::Duration interval = absl::Seconds(3);
    // The kinds of faults (Kinds()); empty: all.
    std::set<std::string> only;
    // The cluster's own network, proxy and database; null: they are left alone.
    ChaosNetwork* network = nullptr;
    ChaosProxy* proxy = nullptr;
    server::PostgresServer* database = nullptr;
    // The most seconds by which clocks are off.
    int clock_jump_s = 20;
  };

  // The names of all kinds of faults.
  static std::vector<std::string> Kinds();

  // `note` gets a line per fault.
  Faults(const Options& options, ChaosCluster* cluster,
         std::function<void(const std::string&)> note);

  // Performs the actions that are due at `now`; call often.
  void Step(absl::Time now);
  // Undoes everything at once; Step() does nothing from then on.
  void Heal();
  // The number of faults of each kind.
  const std::map<std::string, int>& counts() const { return counts_; }
  // What the service did wrong while it was disturbed, one sentence each.
  const std::vector<std::string>& violations() const { return violations_; }
  // The number of requests to resume each job, beside its owner's.
  const std::map<std::string, int>& resumes() const {
    return holder_away_.resumes();
  }

 private:
  struct Undo {
    absl::Time when;
    std::string what;
    std::function<void()> action;
  };

  struct Kind {
    const char* name;
    int weight;
    void (Faults::*strike)(absl::Time now);
  };
  static const std::vector<Kind>& AllKinds();

  void Strike(absl::Time now);
  void StrikeCoordinator(absl::Time now);
  void StrikeWorker(absl::Time now);
  void StopLeader(absl::Time now);
  // Whether the daemon may end by itself now.
  bool MayEnd(const ChaosCluster::Ended& ended, absl::Time now);
  void StartAgain(int which);
  void StrikeProcess(int which, absl::Time now);
  void KillFor(int which, absl::Duration pause, absl::Time now);
  void StopFor(int which, absl::Duration pause, absl::Time now);
  void StrikeMember(absl::Time now);
  void FillWorkerDisk(absl::Time now);
  void FillCoordinatorDisk(absl::Time now);
  void FillDisk(int which, absl::Time now);
  // Looks whether the coordinators say that they take no changes.
  void CheckReadOnly();
  void BreakWorkerDisk(absl::Time now);
  void BreakCoordinatorDisk(absl::Time now);
  void BreakDisk(int which, absl::Time now);
  void LoseDisk(absl::Time now);
  void UploadLate(absl::Time now);
  void MoveClock(absl::Time now);
  void StartWithWrongClock(absl::Time now);
  void SilenceWorker(absl::Time now);
  void SilencePeers(absl::Time now);
  void SilenceDatabase(absl::Time now);
  // `address` is that at which the first calls the second.
  void Silence(const std::string& first, const std::string& second,
               const std::string& address, absl::Time now);
  void SilenceByProxy(int worker, absl::Time now);
  void LosePackets(absl::Time now);
  void DelayPackets(absl::Time now);
  void StrikeDatabase(absl::Time now);
  void StartImpostor(absl::Time now);
  void ClaimHolder(absl::Time now);
  // Stops the holder of the paused job's checkpoint, once there is one.
  void WatchHolder(absl::Time now);
  void Later(absl::Time when, std::string what, std::function<void()> action);
  absl::Duration Draw(absl::Duration low, absl::Duration high);
  int DrawInt(int n) { return static_cast<int>(random_() % n); }

  const Options options_;
  ChaosCluster* const cluster_;
  const std::function<void(const std::string&)> note_;
  std::mt19937_64 random_;
  HolderAway holder_away_;
  LateUpload late_upload_;
  bool healed_ = false;
  absl::Time next_ = absl::InfinitePast();
  std::vector<Undo> undo_;
  // Processes that are stopped or dead and therefore not chosen again.
  std::map<int, bool> down_;
  // Processes whose disk fails, and until when they may therefore end.
  std::map<int, bool> bad_disk_;
  std::map<int, absl::Time> may_end_until_;
  // Until when a worker may give way to an impostor.
  std::map<int, absl::Time> may_give_way_until_;
  // When a coordinator was last started: it does not know which workers were
  // replaced before.
  absl::Time coordinator_started_ = absl::InfinitePast();
  // Processes whose clock was wrong when they started.
  std::map<int, bool> wrong_clock_;
  // Addresses, and groups of the proxy, that are cut off.
  std::map<std::string, bool> silent_;
  std::map<int, ChaosProxy::Manner> manners_;
  bool losing_ = false, delaying_ = false, database_down_ = false,
       impostor_ = false;
  std::map<std::string, int> counts_;
  std::vector<std::string> violations_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_FAULTS_H_
