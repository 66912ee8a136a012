// Forward, backward and the optimiser's step of one batch after the other.
#include "tests/bench/plain_training.h"

#include "common/status_macros.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/optimizer/make_optimizer.h"

namespace comera::bench {

absl::StatusOr<std::unique_ptr<PlainTraining>> PlainTraining::Create(
    const v1::JobSpec& spec, const trainer::ModelConfig& config,
    kernels::Backend* backend) {
  std::unique_ptr<PlainTraining> training(new PlainTraining(backend));
  RETURN_IF_ERROR(training->SetUp(spec, config));
  return training;
}

absl::Status PlainTraining::SetUp(const v1::JobSpec& spec,
                                  const trainer::ModelConfig& config) {
  ASSIGN_OR_RETURN(
      plan_, trainer::ModelPlan::Create(config, spec.training().batch_size(),
                                        trainer::CreateModel, backend_));
  initial_.resize(plan_->size());
  plan_->model().Initialise(spec.training().seed(), initial_.data());
  RETURN_IF_ERROR(plan_->Upload(initial_, plan_->parameters()));
  ASSIGN_OR_RETURN(optimizer_,
                   trainer::MakeOptimizer(spec, config, layout(), backend_));
  state_ = arena_.Reserve("step state", sizeof(kernels::StepState));
  return arena_.Commit();
}

absl::StatusOr<double> PlainTraining::Step(int64_t step, double rate_scale,
                                           const trainer::Batch& batch) {
  trainer::Model& model = plan_->model();
  RETURN_IF_ERROR(backend_->Fill(plan_->reduced(), 0));
  RETURN_IF_ERROR(model.Forward(
      batch, plan_->parameters().data, /*train=*/true,
      static_cast<const kernels::StepState*>(arena_.Address(state_))));
  ASSIGN_OR_RETURN(const trainer::LossTotals totals, model.ReadLoss());
  RETURN_IF_ERROR(
      model.Backward(plan_->parameters().data, plan_->gradients().data));
  RETURN_IF_ERROR(backend_->Scale(static_cast<float>(1 / totals.labels),
                                  plan_->gradients()));
  RETURN_IF_ERROR(optimizer_
                      ->Step(step + 1, rate_scale, plan_->parameters(),
                             plan_->gradients(), plan_->optimizer_state())
                      .status());
  return totals.loss_sum / totals.labels;
}

}  // namespace comera::bench
