#ifndef COMERA_SERVER_SCHEDULER_PASS_MEMORY_H_
#define COMERA_SERVER_SCHEDULER_PASS_MEMORY_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/scheduler/cluster_snapshot.h"
#include "server/scheduler/decision.h"

namespace comera::server {

// What the passes of the scheduler must know of earlier ones, and no table
// holds: for whom room was made, and what running jobs told about their ends.
// It may be lost: then room that was made may go to others, and each job is
// believed anew. Not thread-safe.
class PassMemory {
 public:
  // The remaining time that a running job told last. `attempt` tells the runs
  // of the job apart.
  struct Told {
    int64_t serial = 0;
    int64_t attempt = 0;
    absl::Duration remaining = absl::InfiniteDuration();
  };

  // Between BeginHearing() and EndHearing(), Hear() is called for each running
  // job that tells something; the others are forgotten. Telling the same again
  // is no news: what was told goes on running out.
  void BeginHearing() { ++round_; }
  void Hear(const Told& told, absl::Time now);
  void EndHearing();
  // When the job ends by its own account. InfiniteFuture if that is over, or if
  // the job once took more than twice as long as it told (and a minute): its
  // estimates are not worth waiting for.
  absl::Time EndOf(const Told& told, absl::Time now) const;

  // Grants all that it needs to each waiting job for which the decision stops
  // others, and forgets jobs that it places or that wait no more.
  void Note(const ClusterSnapshot& snapshot, const Decision& decision);
  // PendingJob::granted.
  int32_t GrantedTo(int64_t serial) const {
    const auto it = granted_.find(serial);
    return it == granted_.end() ? 0 : it->second;
  }

 private:
  struct Word {
    int64_t attempt = 0;
    int64_t round = 0;
    absl::Duration remaining;
    absl::Time told;
    // From then on it is not believed.
    absl::Time deadline = absl::InfiniteFuture();
  };
  // The job's word with this telling counted in.
  Word After(const Told& told, absl::Time now) const;

  int64_t round_ = 0;
  // By serial of the job.
  absl::flat_hash_map<int64_t, Word> words_;
  absl::flat_hash_map<int64_t, int32_t> granted_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_PASS_MEMORY_H_
