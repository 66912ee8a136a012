// Remembers the predicted work of a step for as long as it holds.
#include "worker/trainer/loop/step_work.h"

#include <utility>

#include "absl/status/statusor.h"
#include "worker/trainer/planning/step_prediction.h"

namespace comera::trainer {

std::optional<double> StepWork::MultiplyAdds(const ModelConfig& config,
                                             int64_t part_size, int64_t parts) {
  RankTable ranks = RanksOf(config);
  if (length_ == config.length && part_size_ == part_size && parts_ == parts &&
      ranks_ == ranks) {
    return multiply_adds_;
  }
  ranks_ = std::move(ranks);
  length_ = config.length;
  part_size_ = part_size;
  parts_ = parts;
  multiply_adds_.reset();
  const absl::StatusOr<StepPrediction> step =
      PredictStep(config, part_size, config.machine, parts);
  if (step.ok()) multiply_adds_ = step->multiply_adds();
  return multiply_adds_;
}

}  // namespace comera::trainer
