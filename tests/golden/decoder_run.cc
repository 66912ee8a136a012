// Runs and trains the engine's language model on one backend.

#include "tests/golden/decoder_run.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "worker/trainer/model/create_model.h"

namespace comera::golden {
namespace {

// The same parameters without the mark of tables, whose rows AdamW leaves out
// if no token has them.
trainer::ParameterLayout WithoutTables(const trainer::ParameterLayout& layout) {
  trainer::ParameterLayout plain;
  for (const trainer::Parameter& p : layout.parameters()) {
    plain.Add(p.name, p.shape, p.kind, p.in_head);
  }
  return plain;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DecoderRun>> DecoderRun::Create(
    const trainer::ModelConfig& config, int64_t batch_size,
    kernels::Backend* backend) {
  ASSIGN_OR_RETURN(auto model,
                   trainer::CreateModel(config, batch_size, backend));
  auto run = absl::WrapUnique(new DecoderRun(std::move(model), backend));
  for (float** values : {&run->parameters_, &run->gradients_,
                         &run->first_moment_, &run->second_moment_}) {
    ASSIGN_OR_RETURN(*values, run->memory_.Zeros(run->size()));
  }
  ASSIGN_OR_RETURN(run->state_, run->memory_.State());
  return run;
}

absl::Status DecoderRun::SetParameters(const std::vector<float>& values) {
  if (static_cast<int64_t>(values.size()) != size()) {
    return absl::InvalidArgumentError("another number of parameters");
  }
  return backend_->CopyToDevice(parameters_, values.data(),
                                size() * int64_t{sizeof(float)});
}

absl::StatusOr<std::vector<float>> DecoderRun::Parameters() {
  return memory_.Read(parameters_, size());
}

absl::StatusOr<std::vector<float>> DecoderRun::Logits(
    const trainer::Batch& batch) {
  trainer::Batch labelled = batch;
  labelled.label_rows.clear();
  for (size_t row = 0; row < batch.mask.size(); ++row) {
    if (batch.mask[row] == 0) continue;
    labelled.label_rows.push_back(static_cast<int32_t>(row));
  }
  labelled.labels.assign(labelled.label_rows.size(), 0);
  RETURN_IF_ERROR(model_->Forward(labelled, parameters_, false, state_));
  return model_->ReadLogits();
}

absl::StatusOr<trainer::LossTotals> DecoderRun::AddGradients(
    const trainer::Batch& batch) {
  RETURN_IF_ERROR(model_->Forward(batch, parameters_, true, state_));
  ASSIGN_OR_RETURN(const trainer::LossTotals totals, model_->ReadLoss());
  RETURN_IF_ERROR(model_->Backward(parameters_, gradients_));
  return totals;
}

absl::Status DecoderRun::ClearGradients() {
  return backend_->Fill({gradients_, size()}, 0);
}

absl::StatusOr<std::vector<float>> DecoderRun::Gradients() {
  return memory_.Read(gradients_, size());
}

absl::Status DecoderRun::SetOptimizer(const trainer::AdamWOptions& options) {
  ASSIGN_OR_RETURN(optimizer_, trainer::AdamW::Create(
                                   options, WithoutTables(layout()), backend_));
  step_ = 0;
  RETURN_IF_ERROR(backend_->Fill({first_moment_, size()}, 0));
  return backend_->Fill({second_moment_, size()}, 0);
}

absl::StatusOr<double> DecoderRun::Step(double labels) {
  if (optimizer_ == nullptr) {
    return absl::FailedPreconditionError("no optimiser");
  }
  RETURN_IF_ERROR(
      backend_->Scale(static_cast<float>(1 / labels), {gradients_, size()}));
  return optimizer_->Step(
      ++step_, 1, {parameters_, size()}, {gradients_, size()},
      {{first_moment_, size()}, {second_moment_, size()}, {}});
}

}  // namespace comera::golden
