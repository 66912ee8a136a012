// Weighs loss against size towards a target on the Pareto front.
#include "worker/trainer/objective/pareto_objective.h"

#include <utility>

#include "common/status_macros.h"
#include "kernels/together.h"

namespace comera::trainer {

ParetoObjective::ParetoObjective(const ObjectiveOptions& options,
                                 std::unique_ptr<SizeMeasure> measure,
                                 const ParameterLayout& layout,
                                 kernels::Backend* backend)
    : Objective(options, std::move(measure), backend) {
  for (const Parameter& p : layout.parameters()) {
    if (p.kind != ParameterKind::kCore || p.size == 0) continue;
    if (!core_runs_.empty() &&
        core_runs_.back().offset + core_runs_.back().size == p.offset) {
      core_runs_.back().size += p.size;
    } else {
      core_runs_.push_back({p.offset, p.size});
    }
  }
}

absl::StatusOr<ObjectiveStep> ParetoObjective::Apply(
    const StepLoss& loss, v1::Stage stage, double gradient_scale,
    kernels::ConstVector parameters, kernels::Vector gradients) {
  ASSIGN_OR_RETURN(ObjectiveStep step, Measure(parameters));
  if (stage == v1::LATE) {
    const double loss_excess =
        options_.w_loss * (loss.smoothed - options_.target_loss);
    const double size_excess = options_.w_size *
                               (step.size - options_.target_size) /
                               options_.initial_size;
    step.on_size = loss_excess < size_excess;
    if (options_.achievement && step.on_size) {
      step.loss_factor = options_.rho / (options_.w_loss + options_.rho);
    }
  }
  RETURN_IF_ERROR(backend_->Scale(
      static_cast<float>(step.loss_factor * gradient_scale), gradients));
  if (stage != v1::LATE) {
    RETURN_IF_ERROR(AddRelaxedSize(parameters, gradients));
  }
  RETURN_IF_ERROR(AddCoreDecay(parameters, gradients));
  return step;
}

absl::Status ParetoObjective::Enqueue(const float* labels,
                                      kernels::ConstVector parameters,
                                      kernels::Vector gradients) {
  RETURN_IF_ERROR(measure_->EnqueueNorms(parameters));
  RETURN_IF_ERROR(backend_->ScaleByCount(1, labels, gradients));
  RETURN_IF_ERROR(AddRelaxedSize(parameters, gradients));
  return AddCoreDecay(parameters, gradients);
}

absl::Status ParetoObjective::AddRelaxedSize(kernels::ConstVector parameters,
                                             kernels::Vector gradients) {
  ASSIGN_OR_RETURN(
      const float* coefficients,
      measure_->RelaxedGradient(options_.gamma / options_.initial_size));
  return backend_->AddBondGradient(parameters, measure_->bonds(), coefficients,
                                   measure_->threshold(), gradients);
}

absl::Status ParetoObjective::AddCoreDecay(kernels::ConstVector parameters,
                                           kernels::Vector gradients) {
  if (options_.beta == 0) return absl::OkStatus();
  return kernels::RunTogether(backend_, [&]() -> absl::Status {
    for (const Run& run : core_runs_) {
      RETURN_IF_ERROR(backend_->Axpy(
          static_cast<float>(2 * options_.beta),
          kernels::ConstVector(parameters.data + run.offset, run.size),
          kernels::Vector(gradients.data + run.offset, run.size)));
    }
    return absl::OkStatus();
  });
}

}  // namespace comera::trainer
