// The work and time of a training step, predicted before anything runs.
#ifndef COMERA_WORKER_TRAINER_PLANNING_STEP_PREDICTION_H_
#define COMERA_WORKER_TRAINER_PLANNING_STEP_PREDICTION_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cost_backend.h"
#include "kernels/machine_speed.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// Work and time of one step on one member.
struct StepPrediction {
  // The forward and backward passes over all parts of the batch, and what
  // follows them once.
  kernels::OperationCosts::Entry forward, backward, optimizer;
  // The seconds of all of it by operation.
  std::map<std::string, double> seconds_of;
  // All of it on a GPU, by operation and work.
  kernels::GpuWorks gpu_works;
  // The bytes of the model's plan, and of the flat buffers.
  int64_t activation_bytes = 0;
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;  // moments and projectors

  double seconds() const {
    return forward.seconds + backward.seconds + optimizer.seconds;
  }
  double launches() const {
    return forward.launches + backward.launches + optimizer.launches;
  }
  double multiply_adds() const {
    return forward.multiply_adds + backward.multiply_adds +
           optimizer.multiply_adds;
  }
};

// Plans the model for `batch_size` full-length samples and runs one step of it
// on a backend that only counts: the figures are those of the operations that
// training calls, whatever path the planner chose. The step has `parts` batches
// of that size, one after the other (training.accumulate). Takes milliseconds.
// InvalidArgument: impossible configuration.
absl::StatusOr<StepPrediction> PredictStep(const ModelConfig& config,
                                           int64_t batch_size,
                                           const kernels::MachineSpeed& speed,
                                           int64_t parts = 1);

// The seconds alone, planned for and counted with `speed`.
absl::StatusOr<double> PredictStepSeconds(ModelConfig config,
                                          int64_t batch_size,
                                          const kernels::MachineSpeed& speed);

// Full-length samples of evenly spread tokens, of which masked language models
// predict 15% and decoders the one after each, or rows of a click log with
// evenly spread values.
Batch SyntheticBatch(const ModelConfig& config, int64_t size);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PLANNING_STEP_PREDICTION_H_
