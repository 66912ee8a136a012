#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_TRANSFORMER_MODEL_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_TRANSFORMER_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/expanded_table.h"
#include "worker/trainer/model/head/head.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/model/plan/gradient_blocks.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/transformer_body.h"

namespace comera::trainer {

// A Model made of the body of a transformer and a head.
class TransformerModel : public Model {
 public:
  using MakeBody =
      std::function<std::unique_ptr<TransformerBody>(const Plan& plan)>;

  // `config` must pass CheckModelConfig; the head is that of its family.
  // Allocate before use.
  TransformerModel(const ModelConfig& config, int64_t batch_size,
                   kernels::Backend* backend, const MakeBody& make_body);
  // ResourceExhausted: the activations do not fit.
  absl::Status Allocate();

  const ParameterLayout& layout() const override { return layout_.parameters; }
  const std::vector<TensorisedLayer>& tensorised_layers() const override {
    return layout_.layers;
  }
  int64_t activation_bytes() const override;
  void Initialise(uint64_t seed, float* parameters) const override;
  absl::Status SetBatch(const Batch& batch, bool train,
                        const kernels::StepState* state) override;
  void AppendShape(std::vector<int64_t>* shape) const override;
  absl::Status Forward(const float* parameters) override;
  absl::Status Backward(const float* parameters, float* gradients) override;
  std::vector<ParameterRange> GradientBuckets(int64_t floats) const override {
    return blocks_.Buckets(floats);
  }
  absl::Status BackwardBucket(const float* parameters, float* gradients,
                              const ParameterRange& bucket) override;
  absl::Status BackwardByBlock(const float* parameters,
                               kernels::Vector gradients,
                               const BlockDone& done) override;
  const float* totals() const override {
    return plan_.memory->whole()->Floats(totals_);
  }
  absl::StatusOr<LossTotals> ReadLoss() override;
  absl::StatusOr<std::vector<float>> ReadLogits() override;

 private:
  enum class State {
    kIdle,
    kBatchSet,
    kForwardDone,
    kBackwardReady,
    kBackwardDone
  };

  // Makes the plan of stage 0, and table_.
  Plan MakePlan(kernels::Backend* backend);
  // Checks that a Backward may follow, and keeps the parameters.
  absl::Status BeginBackward(const float* parameters);
  // The last piece of the backward pass over the stages.
  absl::Status BackwardEmbedding();

  const ModelConfig config_;
  const int64_t batch_size_;
  // On a device, the small operations of all layers' FinishBackward run
  // together after the backward phases of a bucket.
  const bool finish_last_;
  const ModelLayout layout_;
  const GradientBlocks blocks_;
  StepMemory memory_;
  std::unique_ptr<ExpandedTable> table_;  // Plan::table
  const Plan plan_;
  const SavedMemory::Piece totals_;
  const std::unique_ptr<TransformerBody> body_;
  const std::unique_ptr<Head> head_;
  Step step_;  // filled in by the last SetBatch
  State state_ = State::kIdle;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_TRANSFORMER_MODEL_H_
