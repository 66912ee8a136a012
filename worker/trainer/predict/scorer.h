#ifndef COMERA_WORKER_TRAINER_PREDICT_SCORER_H_
#define COMERA_WORKER_TRAINER_PREDICT_SCORER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/interface/model.h"

namespace comera::trainer {

// A model that only goes forward: its parameters and activations on a backend,
// no gradients and no state of an optimiser.
//
// Not thread-safe. `backend` must outlive it.
class Scorer {
 public:
  // `parameters`: in the layout of the config. ResourceExhausted: does not fit.
  static absl::StatusOr<std::unique_ptr<Scorer>> Create(
      const ModelConfig& config, const std::vector<float>& parameters,
      int64_t batch_size, kernels::Backend* backend);

  int64_t batch_size() const { return batch_size_; }
  // Activations and parameters.
  int64_t bytes() const;

  // The parameters in the backend's memory.
  const float* parameters() const { return arena_.Floats(parameters_); }

  // (label rows, classes or vocabulary), of a DLRM one a sample. Errors of
  // Model::SetBatch.
  absl::StatusOr<std::vector<float>> Logits(const Batch& batch);

 private:
  Scorer(int64_t batch_size, kernels::Backend* backend)
      : batch_size_(batch_size), arena_(backend) {}

  const int64_t batch_size_;
  kernels::Arena arena_;
  kernels::Arena::Piece parameters_ = 0, state_ = 0;
  std::unique_ptr<Model> model_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_SCORER_H_
