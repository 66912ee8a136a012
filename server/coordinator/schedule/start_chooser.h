#ifndef COMERA_SERVER_COORDINATOR_SCHEDULE_START_CHOOSER_H_
#define COMERA_SERVER_COORDINATOR_SCHEDULE_START_CHOOSER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/job/job_entry.h"
#include "server/coordinator/worker/checkpoint_peers.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Where the next attempt of a queued job is to begin.
struct StartChoice {
  enum Kind {
    // At step 0: no state was ever saved, or the owner wants it so.
    kBeginning,
    // From `state`.
    kState,
    // Nowhere yet: a worker that holds the newest state may come back.
    kWait,
    // Nowhere: the wait is over, or there is nothing to wait for.
    kLost,
  };
  Kind kind = kBeginning;
  // kBeginning: the owner wants it so, which has been told.
  bool wanted = false;
  v1::TrainingStateKey state;
  // kState: the newest state, which is given up for an older one; else 0.
  int64_t given_up_step = 0;
  // kWait: why the job waits. kLost, or a state is given up: what is lost, and
  // who held it. A clause without a full stop.
  std::string text;
  // kLost: whose return helps, e.g. "worker w1 is back".
  std::string remedy;
  // kWait: only until workers have reported after the coordinator's restart.
  bool brief = false;
};

// Chooses the training states that attempts begin from: the newest valid one
// (see TrainingLineage) of those that the job names and that workers hold. The
// newest one that the job names is waited for while nobody can give it, since
// training from anything older repeats work, and from step 0 all of it. Not
// thread-safe.
class StartChooser {
 public:
  // All must outlive it.
  StartChooser(const CoordinatorOptions* options, const WorkerTable* workers,
               const CheckpointPeers* peers)
      : options_(options), workers_(workers), peers_(peers) {}

  // Records of an earlier coordinator were loaded: workers may still report.
  void MarkLoaded(absl::Time now) {
    holders_known_at_ = now + options_->suspect_after;
    holders_back_at_ = now + options_->reattach_grace;
  }

  // Most workers are silent: no state is given up for their absence.
  void HoldersAreAway(absl::Time now) {
    holders_back_at_ =
        std::max(holders_back_at_, now + options_->reattach_grace);
  }

  StartChoice Choose(const JobEntry& entry, absl::Time now) const;

  // Whether a member on this worker could read the state: it holds the state,
  // it can reach a worker that does, or the shared store has it.
  bool CanRead(const JobEntry& entry, const v1::TrainingStateKey& state,
               const WorkerState& worker, absl::Time now) const;

  // The connected workers that hold the state, with their incarnations.
  std::set<std::pair<std::string, std::string>> HoldersOf(
      const JobEntry& entry, const v1::TrainingStateKey& state,
      absl::Time now) const;

 private:
  // What is known of one state.
  struct State {
    // The attempt by which holders know it; 0: they do not know.
    int64_t known_attempt = 0;
    bool durable = false;
    std::vector<const WorkerState*> holders;
    // Workers that are said to hold it, and are not connected.
    std::vector<std::string> absent;
  };
  // By step and attempt.
  using States = std::map<std::pair<int64_t, int64_t>, State>;

  States Collect(const JobEntry& entry, absl::Time now) const;
  // `worker` is null, and without meaning, for one in the shared store.
  void AddHeld(const JobEntry& entry, const WorkerState* worker,
               const v1::HeldCheckpoint& held, bool connected,
               States* states) const;
  // Whether an attempt may try to begin from it.
  bool CanBeHad(const JobEntry& entry, const States::value_type& state,
                absl::Time now) const;
  // The first worker of the job that has not reported since the coordinator's
  // restart; empty: all have, or they had the time.
  std::string Unreported(const JobEntry& entry, absl::Time now) const;
  // What to say of a state that cannot be had; null: nothing is known of it.
  struct Absence {
    std::string wait;
    std::string lost;
    std::string remedy;
  };
  Absence Describe(const JobEntry& entry, int64_t step,
                   const State* state) const;

  const CoordinatorOptions* const options_;
  const WorkerTable* const workers_;
  const CheckpointPeers* const peers_;
  absl::Time holders_known_at_ = absl::InfinitePast();
  // Until then nothing is given up: its holder may still come back.
  absl::Time holders_back_at_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SCHEDULE_START_CHOOSER_H_
