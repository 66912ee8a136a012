// Batches whose gradients are far too large, so that a spike comes where a test
// wants it.
#ifndef COMERA_TESTS_WORKER_TRAINER_LOOP_LOUD_BATCHES_H_
#define COMERA_TESTS_WORKER_TRAINER_LOOP_LOUD_BATCHES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "kernels/backend.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {

// The tiny job's data; the batches of the steps from `first` up to `end`, of
// member 0 only, hold a token that no other batch has.
class LoudData : public FakeTrainingData {
 public:
  static constexpr int32_t kToken = 31;

  LoudData(int64_t first, int64_t end) : first_(first), end_(end) {}

  absl::Status TrainBatch(int64_t step, int64_t batch_size, int rank,
                          int world_size, Batch* batch) const override {
    RETURN_IF_ERROR(FakeTrainingData::TrainBatch(step, batch_size, rank,
                                                 world_size, batch));
    if (step >= first_ && step < end_ && rank == 0) batch->ids[0] = kToken;
    return absl::OkStatus();
  }

 private:
  const int64_t first_, end_;
};

// The job's model, which makes the gradients of such a batch 100 times as large
// as they are.
class LoudModel : public Model {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const ModelConfig& config, int64_t batch_size,
      kernels::Backend* backend) {
    auto model = CreateModel(config, batch_size, backend);
    RETURN_IF_ERROR(model.status());
    return std::make_unique<LoudModel>(*std::move(model), backend);
  }

  LoudModel(std::unique_ptr<Model> model, kernels::Backend* backend)
      : model_(std::move(model)), backend_(backend) {}

  const ParameterLayout& layout() const override { return model_->layout(); }
  const std::vector<TensorisedLayer>& tensorised_layers() const override {
    return model_->tensorised_layers();
  }
  int64_t activation_bytes() const override {
    return model_->activation_bytes();
  }
  void Initialise(uint64_t seed, float* parameters) const override {
    model_->Initialise(seed, parameters);
  }
  absl::Status SetBatch(const Batch& batch, bool train,
                        const kernels::StepState* state) override {
    loud_ = std::find(batch.ids.begin(), batch.ids.end(), LoudData::kToken) !=
            batch.ids.end();
    return model_->SetBatch(batch, train, state);
  }
  void AppendShape(std::vector<int64_t>* shape) const override {
    model_->AppendShape(shape);
    shape->push_back(loud_);
  }
  absl::Status Forward(const float* parameters) override {
    return model_->Forward(parameters);
  }
  absl::Status Backward(const float* parameters, float* gradients) override {
    RETURN_IF_ERROR(model_->Backward(parameters, gradients));
    if (!loud_) return absl::OkStatus();
    return backend_->Scale(100, {gradients, layout().trained_size()});
  }
  const float* totals() const override { return model_->totals(); }
  absl::StatusOr<LossTotals> ReadLoss() override { return model_->ReadLoss(); }
  absl::StatusOr<std::vector<float>> ReadLogits() override {
    return model_->ReadLogits();
  }

 private:
  const std::unique_ptr<Model> model_;
  kernels::Backend* const backend_;
  bool loud_ = false;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_LOOP_LOUD_BATCHES_H_
