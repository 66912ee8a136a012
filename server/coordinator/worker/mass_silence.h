#ifndef COMERA_SERVER_COORDINATOR_WORKER_MASS_SILENCE_H_
#define COMERA_SERVER_COORDINATOR_WORKER_MASS_SILENCE_H_

#include "absl/time/time.h"
#include "server/coordinator/job/coordinator_options.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Notices when most workers fall silent together, which points to the network
// or to the coordinator's own machine and not to them. Nobody is given up for
// silence then, until they are back or CoordinatorOptions::mass_silence_wait
// has passed. Not thread-safe.
class MassSilence {
 public:
  // The workers of a smaller cluster are each given up on their own.
  static constexpr int kMinWorkers = 3;

  // Both must outlive it.
  MassSilence(const CoordinatorOptions* options, const WorkerTable* workers)
      : options_(options), workers_(workers) {}

  // Looks at all workers; to be called about every second.
  void Update(absl::Time now);

  // Most workers are silent.
  bool active() const { return active_; }
  // Nobody is to be given up for silence now.
  bool holds(absl::Time now) const {
    return active_ && now - since_ <= options_->mass_silence_wait;
  }
  // How long the worker has been silent, without what most were silent for.
  absl::Duration SilenceOf(const WorkerState& worker, absl::Time now) const;
  // Whether it has been silent for long enough to count.
  bool IsSilent(const WorkerState& worker, absl::Time now) const;

 private:
  const CoordinatorOptions* const options_;
  const WorkerTable* const workers_;
  bool active_ = false;
  absl::Time since_ = absl::InfinitePast();
  // When most were heard again.
  absl::Time ended_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_MASS_SILENCE_H_
