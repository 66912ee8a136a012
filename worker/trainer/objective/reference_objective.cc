// The size penalty of the published code.
#include "worker/trainer/objective/reference_objective.h"

#include <vector>

#include "common/status_macros.h"

namespace comera::trainer {
namespace {

constexpr double kRankWeight = 0.01;
constexpr double kLateLossWeight = 0.1;

}  // namespace

absl::StatusOr<ObjectiveStep> ReferenceObjective::Apply(
    const StepLoss& loss, v1::Stage stage, double gradient_scale,
    kernels::ConstVector parameters, kernels::Vector gradients) {
  ASSIGN_OR_RETURN(ObjectiveStep step, Measure(parameters));
  double rank_factor = kRankWeight;
  if (stage == v1::LATE) {
    // Multiplied out: the loss and the size are not negative, and 0 is no
    // division then.
    step.on_size = (loss.mean - options_.target_loss) * step.size <
                   (step.size - options_.target_size) * loss.mean;
    step.loss_factor = kLateLossWeight + (step.on_size ? 0 : 1);
    rank_factor += step.on_size ? 1 : 0;
  }
  RETURN_IF_ERROR(backend_->Scale(
      static_cast<float>(step.loss_factor * gradient_scale), gradients));
  if (step.alive_entries == 0) return step;
  ASSIGN_OR_RETURN(const float* coefficients,
                   measure_->EqualGradient(rank_factor / step.alive_entries));
  RETURN_IF_ERROR(backend_->AddBondGradient(parameters, measure_->bonds(),
                                            coefficients, measure_->threshold(),
                                            gradients));
  return step;
}

}  // namespace comera::trainer
