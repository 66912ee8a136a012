// A DLRM behind the Model interface.
#include "worker/trainer/model/dlrm/dlrm_model.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/initialise.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> DlrmModel::Create(
    const ModelConfig& config, int64_t batch_size, kernels::Backend* backend) {
  constexpr int64_t kMaxBatch = int64_t{1} << 24;
  if (batch_size < 1 || batch_size > kMaxBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size: ", batch_size, " is out of range"));
  }
  auto model = absl::WrapUnique(new DlrmModel(config, batch_size, backend));
  RETURN_IF_ERROR(model->memory_.Commit());
  return model;
}

DlrmModel::DlrmModel(const ModelConfig& config, int64_t batch_size,
                     kernels::Backend* backend)
    : config_(config),
      batch_size_(batch_size),
      shape_(InteractionOf(config)),
      layout_(MakeModelLayout(config)),
      memory_(backend, /*stages=*/1, /*finish_last=*/false),
      plan_{backend,         &memory_,  memory_.saved(0), memory_.workspace(0),
            memory_.sums(0), &config_,  &layout_,         batch_size,
            batch_size,      batch_size},
      totals_(memory_.whole()->Reserve("totals", 3 * kFloat)),
      labels_(Reserve(memory_.saved(0), "dlrm.labels", 1)),
      dense_(Reserve(memory_.saved(0), "dlrm.dense",
                     config.clicks.dense_features)),
      vectors_(Reserve(memory_.saved(0), "dlrm.vectors",
                       shape_.vectors * shape_.width)),
      interaction_(
          Reserve(memory_.saved(0), "dlrm.interaction", shape_.outputs())),
      logits_(Reserve(memory_.saved(0), "dlrm.logits", 1)),
      grad_logits_(Reserve(memory_.saved(0), "dlrm.grad_logits", 1)),
      grad_vectors_(Reserve(memory_.gradients(), "dlrm.grad_vectors",
                            shape_.vectors * shape_.width)),
      grad_interaction_(Reserve(memory_.gradients(), "dlrm.grad_interaction",
                                shape_.outputs())),
      bottom_(plan_, "bottom", config.bottom_mlp, /*relu_last=*/true),
      top_(plan_, "top", config.top_mlp, /*relu_last=*/false) {
  for (int64_t t = 0; t < config.clicks.tables(); ++t) {
    tables_.push_back(std::make_unique<EmbeddingBag>(
        plan_, absl::StrCat("tables.", t), batch_size, batch_size));
  }
}

SavedMemory::Piece DlrmModel::Reserve(SavedMemory* memory, const char* name,
                                      int64_t width) {
  return memory->Reserve(name, batch_size_ * width * kFloat);
}

void DlrmModel::Initialise(uint64_t seed, float* parameters) const {
  InitialiseParameters(config_, seed, parameters);
}

absl::Status DlrmModel::CheckBatch(const Batch& batch) const {
  if (batch.size < 1 || batch.size > batch_size_ || batch.length != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: ", batch.size, " samples of length ", batch.length,
                     ", planned for at most ", batch_size_, " of 1"));
  }
  const auto count = [](const auto& values) {
    return static_cast<int64_t>(values.size());
  };
  if (count(batch.labels) != batch.size ||
      count(batch.dense) != batch.size * config_.clicks.dense_features ||
      count(batch.categories) != batch.size * config_.clicks.tables()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.labels.size(), " labels, ", batch.dense.size(),
        " dense features and ", batch.categories.size(), " categories for ",
        batch.size, " samples"));
  }
  for (int32_t label : batch.labels) {
    if (label == 0 || label == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("batch: label ", label, " is neither 0 nor 1"));
  }
  return absl::OkStatus();
}

absl::Status DlrmModel::SetBatch(const Batch& batch, bool train,
                                 const kernels::StepState* state) {
  state_ = State::kIdle;
  RETURN_IF_ERROR(CheckBatch(batch));
  step_ = Step{};
  step_.train = train;
  step_.padded = train && config_.pad_batches;
  step_.state = state;
  step_.tokens = step_.sequences = batch.size;
  step_.max_length = step_.length = 1;
  RETURN_IF_ERROR(plan_.backend->CopyToDevice(
      plan_.saved->Address(labels_), batch.labels.data(),
      batch.size * int64_t{sizeof(int32_t)}));
  RETURN_IF_ERROR(plan_.backend->CopyToDevice(
      plan_.saved->Address(dense_), batch.dense.data(),
      static_cast<int64_t>(batch.dense.size()) * kFloat));
  for (size_t t = 0; t < tables_.size(); ++t) {
    RETURN_IF_ERROR(tables_[t]->SetBatch(
        absl::MakeConstSpan(batch.categories.data() + t * batch.size,
                            batch.size),
        step_.padded));
  }
  state_ = State::kBatchSet;
  return absl::OkStatus();
}

void DlrmModel::AppendShape(std::vector<int64_t>* shape) const {
  shape->insert(
      shape->end(),
      {step_.train, reinterpret_cast<intptr_t>(step_.state), step_.tokens});
  for (const auto& table : tables_) table->AppendShape(shape);
}

absl::Status DlrmModel::Forward(const float* parameters) {
  if (state_ == State::kIdle) {
    return absl::FailedPreconditionError("Forward without a batch");
  }
  step_.parameters = parameters;
  kernels::Backend& backend = *plan_.backend;
  float* totals = memory_.whole()->Floats(totals_);
  RETURN_IF_ERROR(backend.Fill({totals, 3}, 0));
  const Matrix vectors = Saved(vectors_, shape_.vectors * shape_.width);
  RETURN_IF_ERROR(bottom_.Forward(step_,
                                  Saved(dense_, config_.clicks.dense_features),
                                  Vector(vectors.data, 0)));
  for (size_t t = 0; t < tables_.size(); ++t) {
    RETURN_IF_ERROR(tables_[t]->Forward(
        step_, Vector(vectors.data, static_cast<int64_t>(t) + 1)));
  }
  const Matrix interaction = Saved(interaction_, shape_.outputs());
  RETURN_IF_ERROR(
      backend.PairwiseInteraction(shape_.vectors, vectors, interaction));
  const Matrix logits = Saved(logits_, 1);
  RETURN_IF_ERROR(top_.Forward(step_, interaction, logits));
  RETURN_IF_ERROR(backend.SigmoidCrossEntropy(
      logits, ConstIndices(plan_.saved->Ints(labels_), step_.rows()),
      step_.train ? Saved(grad_logits_, 1) : Matrix(), totals));
  state_ = step_.train ? State::kBackwardReady : State::kForwardDone;
  return absl::OkStatus();
}

absl::Status DlrmModel::Backward(const float* parameters, float* gradients) {
  if (state_ != State::kBackwardReady) {
    return absl::FailedPreconditionError(
        "Backward without a Forward in training");
  }
  state_ = State::kBackwardDone;
  step_.parameters = parameters;
  step_.gradients = gradients;
  const Matrix vectors = Saved(vectors_, shape_.vectors * shape_.width);
  const Matrix grad_vectors(memory_.gradients()->Floats(grad_vectors_),
                            step_.rows(), vectors.cols);
  const Matrix grad_interaction(memory_.gradients()->Floats(grad_interaction_),
                                step_.rows(), shape_.outputs());
  RETURN_IF_ERROR(top_.Backward(step_, Saved(interaction_, shape_.outputs()),
                                Saved(logits_, 1), Saved(grad_logits_, 1),
                                grad_interaction));
  RETURN_IF_ERROR(plan_.backend->PairwiseInteractionBackward(
      shape_.vectors, vectors, grad_interaction, grad_vectors));
  for (size_t t = 0; t < tables_.size(); ++t) {
    RETURN_IF_ERROR(tables_[t]->Backward(
        step_, Vector(grad_vectors.data, static_cast<int64_t>(t) + 1)));
  }
  return bottom_.Backward(step_, Saved(dense_, config_.clicks.dense_features),
                          Vector(vectors.data, 0), Vector(grad_vectors.data, 0),
                          Matrix());
}

absl::StatusOr<LossTotals> DlrmModel::ReadLoss() {
  if (state_ == State::kIdle || state_ == State::kBatchSet) {
    return absl::FailedPreconditionError("ReadLoss without a Forward");
  }
  float totals[3];
  RETURN_IF_ERROR(
      plan_.backend->CopyToHost(totals, this->totals(), sizeof(totals)));
  RETURN_IF_ERROR(plan_.backend->Synchronize());
  return LossTotals{totals[0], totals[1], totals[2]};
}

absl::StatusOr<std::vector<float>> DlrmModel::ReadLogits() {
  // Backward reuses the memory.
  if (state_ != State::kForwardDone && state_ != State::kBackwardReady) {
    return absl::FailedPreconditionError("ReadLogits not after a Forward");
  }
  state_ = State::kForwardDone;
  std::vector<float> logits(step_.rows());
  RETURN_IF_ERROR(plan_.backend->CopyToHost(
      logits.data(), plan_.saved->Floats(logits_), step_.rows() * kFloat));
  RETURN_IF_ERROR(plan_.backend->Synchronize());
  return logits;
}

}  // namespace comera::trainer
