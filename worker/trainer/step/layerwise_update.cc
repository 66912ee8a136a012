// Updates every block of parameters within the backward pass.
#include "worker/trainer/step/layerwise_update.h"

#include <cmath>

#include "common/status_macros.h"

namespace comera::trainer {

absl::StatusOr<double> LayerwiseUpdate::Run() {
  squares_ = 0;
  RETURN_IF_ERROR(plan_.model().BackwardByBlock(
      plan_.parameters().data, plan_.gradients(),
      [this](const ParameterRange& block, kernels::Vector gradients) {
        return Update(block, gradients);
      }));
  return std::sqrt(squares_);
}

absl::Status LayerwiseUpdate::Update(const ParameterRange& block,
                                     kernels::Vector gradients) {
  if (!std::isfinite(squares_)) return absl::OkStatus();
  RETURN_IF_ERROR(
      backend_.Scale(static_cast<float>(options_.gradient_scale), gradients));
  ASSIGN_OR_RETURN(const double norm,
                   optimizer_.StepBlock(
                       options_.step, options_.learning_rate_scale, block,
                       plan_.parameters(), gradients, plan_.optimizer_state()));
  squares_ += norm * norm;
  return absl::OkStatus();
}

}  // namespace comera::trainer
