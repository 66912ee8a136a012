#ifndef COMERA_TESTS_GOLDEN_DECODER_RUN_H_
#define COMERA_TESTS_GOLDEN_DECODER_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "tests/golden/device_memory.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/optimizer/adamw.h"

namespace comera::golden {

// The engine's language model with parameters, gradients and moments in a
// backend's memory. The backend must outlive it.
class DecoderRun {
 public:
  // Plans batches of up to `batch_size` samples; all values are 0.
  static absl::StatusOr<std::unique_ptr<DecoderRun>> Create(
      const trainer::ModelConfig& config, int64_t batch_size,
      kernels::Backend* backend);

  const trainer::ParameterLayout& layout() const { return model_->layout(); }

  // In the layout's order.
  absl::Status SetParameters(const std::vector<float>& values);
  absl::StatusOr<std::vector<float>> Parameters();

  // (tokens, vocabulary) of every token of the batch that is no padding.
  absl::StatusOr<std::vector<float>> Logits(const trainer::Batch& batch);

  // Adds the gradients of the sum of the batch's losses.
  absl::StatusOr<trainer::LossTotals> AddGradients(const trainer::Batch& batch);
  absl::Status ClearGradients();
  absl::StatusOr<std::vector<float>> Gradients();

  // Chooses the optimiser, which begins at step 1. A table is trained like
  // every other matrix: the rows that no token has are not left out.
  absl::Status SetOptimizer(const trainer::AdamWOptions& options);
  // Steps on the gradients divided by `labels`; returns their norm before
  // clipping.
  absl::StatusOr<double> Step(double labels);

 private:
  DecoderRun(std::unique_ptr<trainer::Model> model, kernels::Backend* backend)
      : model_(std::move(model)), backend_(backend), memory_(backend) {}

  int64_t size() const { return model_->layout().size(); }

  const std::unique_ptr<trainer::Model> model_;
  kernels::Backend* const backend_;
  DeviceMemory memory_;
  const kernels::StepState* state_ = nullptr;
  float *parameters_ = nullptr, *gradients_ = nullptr;
  float *first_moment_ = nullptr, *second_moment_ = nullptr;
  std::unique_ptr<trainer::AdamW> optimizer_;
  int64_t step_ = 0;
};

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_DECODER_RUN_H_
