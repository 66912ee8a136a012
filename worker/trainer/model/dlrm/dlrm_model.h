#ifndef COMERA_WORKER_TRAINER_MODEL_DLRM_DLRM_MODEL_H_
#define COMERA_WORKER_TRAINER_MODEL_DLRM_DLRM_MODEL_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/config/dlrm_layers.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/dlrm/mlp.h"
#include "worker/trainer/model/embedding/embedding_bag.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Click prediction (Naumov et al., arXiv 1906.00091): the bottom MLP turns the
// dense features into a vector as wide as the embeddings; it and one row of
// every table interact pairwise; the top MLP turns that into the log-odds of a
// click. Loss: binary cross-entropy.
class DlrmModel : public Model {
 public:
  // `config` must pass CheckModelConfig. InvalidArgument: batch_size.
  // ResourceExhausted: activations do not fit.
  static absl::StatusOr<std::unique_ptr<Model>> Create(
      const ModelConfig& config, int64_t batch_size, kernels::Backend* backend);

  const ParameterLayout& layout() const override { return layout_.parameters; }
  const std::vector<TensorisedLayer>& tensorised_layers() const override {
    return layout_.layers;
  }
  int64_t activation_bytes() const override { return memory_.bytes(); }
  void Initialise(uint64_t seed, float* parameters) const override;
  absl::Status SetBatch(const Batch& batch, bool train,
                        const kernels::StepState* state) override;
  void AppendShape(std::vector<int64_t>* shape) const override;
  absl::Status Forward(const float* parameters) override;
  absl::Status Backward(const float* parameters, float* gradients) override;
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

  DlrmModel(const ModelConfig& config, int64_t batch_size,
            kernels::Backend* backend);
  absl::Status CheckBatch(const Batch& batch) const;
  SavedMemory::Piece Reserve(SavedMemory* memory, const char* name,
                             int64_t width);
  // (batch, width) views of the last SetBatch's batch.
  kernels::Matrix Saved(SavedMemory::Piece piece, int64_t width) const {
    return kernels::Matrix(plan_.saved->Floats(piece), step_.rows(), width);
  }
  // Vector `i` of each row of (batch, vectors * width).
  kernels::Matrix Vector(float* rows, int64_t i) const {
    return kernels::Matrix(rows + i * shape_.width, step_.rows(), shape_.width,
                           shape_.vectors * shape_.width);
  }

  const ModelConfig config_;
  const int64_t batch_size_;
  const DlrmInteraction shape_;
  const ModelLayout layout_;
  StepMemory memory_;
  const Plan plan_;
  const SavedMemory::Piece totals_, labels_, dense_, vectors_, interaction_;
  const SavedMemory::Piece logits_, grad_logits_;
  const SavedMemory::Piece grad_vectors_, grad_interaction_;  // going back
  Mlp bottom_;
  std::vector<std::unique_ptr<EmbeddingBag>> tables_;
  Mlp top_;
  Step step_;  // filled in by the last SetBatch
  State state_ = State::kIdle;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DLRM_DLRM_MODEL_H_
