#include "worker/trainer/model/ffn_block.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/dropout_sites.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::DropoutKey;
using kernels::Matrix;

FfnBlock::FfnBlock(const Plan& plan, int64_t layer)
    : plan_(plan),
      layer_(layer),
      hidden_(plan.config->hidden),
      width_(plan.config->ffn),
      gamma_(
          plan.At(absl::StrCat("encoder.layers.", layer, ".ffn.norm.gamma"))),
      beta_(plan.At(absl::StrCat("encoder.layers.", layer, ".ffn.norm.beta"))) {
  const int64_t rows = plan.max_rows;
  up_ = MakeLinear(plan, absl::StrCat("layers.", layer, ".ffn_up"), rows,
                   /*own_scratch=*/false);
  down_ = MakeLinear(plan, absl::StrCat("layers.", layer, ".ffn_down"), rows,
                     /*own_scratch=*/false);

  const int64_t row_bytes = rows * int64_t{sizeof(float)};
  const auto save = [&](const char* name, int64_t bytes) {
    return plan.saved->Reserve(absl::StrCat("layers.", layer, ".ffn.", name),
                               bytes);
  };
  up_output_ = save("up", width_ * row_bytes);
  activated_ = save("activated", width_ * row_bytes);
  normalised_ = save("normalised", hidden_ * row_bytes);
  deviation_ = save("deviation", row_bytes);
  output_ = save("output", hidden_ * row_bytes);

  branch_ = plan.workspace->Reserve("block.branch", hidden_ * row_bytes);
  inner_ = plan.workspace->Reserve("block.inner", width_ * row_bytes);
}

ConstMatrix FfnBlock::output(int64_t rows) const {
  return ConstMatrix(plan_.saved->Floats(output_), rows, hidden_);
}

DropoutKey FfnBlock::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, FfnOutputDropout(layer_),
                      step.first_sample * step.length);
}

absl::Status FfnBlock::Forward(const Step& step, ConstMatrix x) {
  kernels::Backend& backend = *plan_.backend;
  const kernels::Arena& saved = *plan_.saved;
  const int64_t rows = step.rows();
  const Matrix up(saved.Floats(up_output_), rows, width_);
  const Matrix activated(saved.Floats(activated_), rows, width_);
  const Matrix branch(plan_.workspace->Floats(branch_), rows, hidden_);
  RETURN_IF_ERROR(up_->Prepare(step));
  RETURN_IF_ERROR(up_->Forward(step, x, up));
  RETURN_IF_ERROR(backend.Gelu(up, activated));
  RETURN_IF_ERROR(down_->Prepare(step));
  RETURN_IF_ERROR(down_->Forward(step, activated, branch));
  return backend.ResidualLayerNorm(
      Dropout(step), branch, x, step.Vector(gamma_), step.Vector(beta_),
      plan_.config->layer_norm_epsilon,
      Matrix(saved.Floats(normalised_), rows, hidden_),
      {saved.Floats(deviation_), rows},
      Matrix(saved.Floats(output_), rows, hidden_));
}

absl::Status FfnBlock::Backward(const Step& step, ConstMatrix grad_y,
                                Matrix grad_x) {
  kernels::Backend& backend = *plan_.backend;
  const kernels::Arena& saved = *plan_.saved;
  const int64_t rows = step.rows();
  const DropoutKey dropout = Dropout(step);
  const Matrix branch(plan_.workspace->Floats(branch_), rows, hidden_);
  // Without dropout the branch's gradient is the residual's.
  const bool dropped = dropout.rate > 0;
  RETURN_IF_ERROR(backend.ResidualLayerNormBackward(
      dropout, grad_y, ConstMatrix(saved.Floats(normalised_), rows, hidden_),
      {saved.Floats(deviation_), rows}, step.Vector(gamma_),
      dropped ? branch : Matrix(nullptr, rows, hidden_), grad_x,
      step.Gradient(gamma_), step.Gradient(beta_)));

  const Matrix inner(plan_.workspace->Floats(inner_), rows, width_);
  RETURN_IF_ERROR(
      down_->Backward(step, dropped ? branch : grad_x, inner, false));
  RETURN_IF_ERROR(down_->FinishBackward(step));
  RETURN_IF_ERROR(backend.GeluBackward(
      ConstMatrix(saved.Floats(up_output_), rows, width_), inner, inner));
  RETURN_IF_ERROR(up_->Backward(step, inner, grad_x, true));
  return up_->FinishBackward(step);
}

}  // namespace comera::trainer
