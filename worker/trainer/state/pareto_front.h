#ifndef COMERA_WORKER_TRAINER_STATE_PARETO_FRONT_H_
#define COMERA_WORKER_TRAINER_STATE_PARETO_FRONT_H_

#include <cstdint>
#include <vector>

namespace comera::trainer {

// A model seen during training.
struct ParetoCandidate {
  int64_t step = 0;
  double validation_loss = 0;
  int64_t size_parameters = 0;
};

// The models that no other one beats: no candidate on it is matched or bettered
// in both loss and size by another. Not thread-safe.
class ParetoFront {
 public:
  // True if the candidate is on the front now; those it beats leave. Of equal
  // candidates the first stays. A loss that is not finite is never on it.
  bool Add(const ParetoCandidate& candidate);

  // The front by ascending size, hence descending loss.
  const std::vector<ParetoCandidate>& points() const { return points_; }

 private:
  std::vector<ParetoCandidate> points_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_STATE_PARETO_FRONT_H_
