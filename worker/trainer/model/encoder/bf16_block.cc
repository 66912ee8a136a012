// Adds a branch to a residual stream of bfloat16 and normalises the sum.
#include "worker/trainer/model/encoder/bf16_block.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::Bf16Matrix;
using kernels::ConstBf16Matrix;
using kernels::DropoutKey;

Bf16Block::Bf16Block(const Plan& plan, const std::string& name,
                     const std::string& key, uint32_t site,
                     std::unique_ptr<Bf16Branch> branch)
    : plan_(plan),
      site_(site),
      gamma_(plan.At(name + ".norm.gamma")),
      beta_(plan.At(name + ".norm.beta")),
      branch_(std::move(branch)) {
  const int64_t bytes =
      plan.max_rows * plan.config->hidden * int64_t{sizeof(uint16_t)};
  normalised_ = plan.saved->Reserve(key + ".normalised", bytes);
  deviation_ = plan.saved->Reserve(key + ".deviation",
                                   plan.max_rows * int64_t{sizeof(float)});
  grad_branch_ = plan.workspace->Reserve("block.branch", bytes);
}

DropoutKey Bf16Block::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, site_);
}

Bf16Matrix Bf16Block::Normalised(int64_t rows) const {
  return Bf16Matrix(plan_.saved->Bf16(normalised_), rows, plan_.config->hidden);
}

kernels::Vector Bf16Block::Deviation(int64_t rows) const {
  return {plan_.saved->Floats(deviation_), rows};
}

absl::Status Bf16Block::Forward(const Step& step, Bf16Matrix stream) {
  const Bf16Matrix normalised = Normalised(stream.rows);
  RETURN_IF_ERROR(branch_->Forward(step, stream, normalised));
  return plan_.backend->ResidualLayerNormBf16(
      Dropout(step), normalised, stream, step.Vector(gamma_),
      step.Vector(beta_), plan_.config->layer_norm_epsilon, normalised,
      Deviation(stream.rows), stream);
}

absl::Status Bf16Block::Backward(const Step& step, ConstBf16Matrix x,
                                 Bf16Matrix grad) {
  const DropoutKey dropout = Dropout(step);
  // Without dropout the branch's gradient is the residual's.
  const Bf16Matrix branch(
      dropout.rate > 0 ? plan_.workspace->Bf16(grad_branch_) : nullptr,
      grad.rows, grad.cols);
  RETURN_IF_ERROR(plan_.backend->ResidualLayerNormBackwardBf16(
      dropout, grad, Normalised(grad.rows), Deviation(grad.rows),
      step.Vector(gamma_), branch, grad, step.Gradient(gamma_),
      step.Gradient(beta_)));
  return branch_->Backward(step, x, dropout.rate > 0 ? branch : grad, grad);
}

absl::Status Bf16Block::Output(const Step& step, Bf16Matrix y) const {
  return plan_.backend->LayerNormOutputBf16(
      {}, Normalised(y.rows), step.Vector(gamma_), step.Vector(beta_), y);
}

}  // namespace comera::trainer
