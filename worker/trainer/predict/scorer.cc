// Runs one exported model on batches and returns its logits.
#include "worker/trainer/predict/scorer.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<Scorer>> Scorer::Create(
    const ModelConfig& config, const std::vector<float>& parameters,
    int64_t batch_size, kernels::Backend* backend) {
  auto scorer = absl::WrapUnique(new Scorer(batch_size, backend));
  ASSIGN_OR_RETURN(scorer->model_, CreateModel(config, batch_size, backend));
  const auto bytes = static_cast<int64_t>(parameters.size() * sizeof(float));
  if (static_cast<int64_t>(parameters.size()) !=
      scorer->model_->layout().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(parameters.size(), " parameters for a model of ",
                     scorer->model_->layout().size()));
  }
  kernels::Arena& arena = scorer->arena_;
  scorer->parameters_ = arena.Reserve("parameters", bytes);
  scorer->state_ = arena.Reserve("state", sizeof(kernels::StepState));
  RETURN_IF_ERROR(arena.Commit());
  RETURN_IF_ERROR(backend->CopyToDevice(arena.Address(scorer->parameters_),
                                        parameters.data(), bytes));
  const kernels::StepState state;
  RETURN_IF_ERROR(backend->CopyToDevice(arena.Address(scorer->state_), &state,
                                        sizeof(state)));
  RETURN_IF_ERROR(backend->Synchronize());
  return scorer;
}

int64_t Scorer::bytes() const {
  return arena_.bytes() + model_->activation_bytes();
}

absl::StatusOr<std::vector<float>> Scorer::Logits(const Batch& batch) {
  RETURN_IF_ERROR(model_->Forward(
      batch, arena_.Floats(parameters_), /*train=*/false,
      static_cast<const kernels::StepState*>(arena_.Address(state_))));
  return model_->ReadLogits();
}

}  // namespace comera::trainer
