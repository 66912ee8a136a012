#ifndef COMERA_WORKER_TRAINER_LOOP_STEP_WORK_H_
#define COMERA_WORKER_TRAINER_LOOP_STEP_WORK_H_

#include <cstdint>
#include <optional>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The work of a training step, predicted anew whenever the ranks or the shape
// of the batch have changed. Not thread-safe.
class StepWork {
 public:
  // The multiply-adds of the matrix products in a step on one member, which
  // computes `parts` batches of `part_size` full-length samples. Nothing: it
  // cannot be predicted.
  std::optional<double> MultiplyAdds(const ModelConfig& config,
                                     int64_t part_size, int64_t parts);

 private:
  // What the last prediction was for.
  RankTable ranks_;
  int64_t length_ = -1;
  int64_t part_size_ = 0;
  int64_t parts_ = 0;
  std::optional<double> multiply_adds_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_STEP_WORK_H_
