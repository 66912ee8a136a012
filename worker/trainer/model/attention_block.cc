#include "worker/trainer/model/attention_block.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/dropout_sites.h"

namespace comera::trainer {

using kernels::AttentionShape;
using kernels::ConstMatrix;
using kernels::ConstVector;
using kernels::DropoutKey;
using kernels::Matrix;

AttentionBlock::AttentionBlock(const Plan& plan, int64_t layer)
    : plan_(plan),
      layer_(layer),
      hidden_(plan.config->hidden),
      gamma_(plan.At(
          absl::StrCat("encoder.layers.", layer, ".attention.norm.gamma"))),
      beta_(plan.At(
          absl::StrCat("encoder.layers.", layer, ".attention.norm.beta"))) {
  const ModelConfig& config = *plan.config;
  const int64_t rows = plan.max_rows;
  const auto linear = [&](const char* part) {
    return MakeLinear(plan, absl::StrCat("layers.", layer, ".", part), rows,
                      /*own_scratch=*/false);
  };
  query_ = linear("query");
  key_ = linear("key");
  value_ = linear("value");
  projection_ = linear("output");

  const int64_t stream = rows * hidden_ * int64_t{sizeof(float)};
  const auto save = [&](const char* name, int64_t bytes) {
    return plan.saved->Reserve(
        absl::StrCat("layers.", layer, ".attention.", name), bytes);
  };
  q_ = save("query", stream);
  k_ = save("key", stream);
  v_ = save("value", stream);
  probabilities_ = save("probabilities", rows * config.length * config.heads *
                                             int64_t{sizeof(float)});
  context_ = save("context", stream);
  normalised_ = save("normalised", stream);
  deviation_ = save("deviation", rows * int64_t{sizeof(float)});
  output_ = save("output", stream);

  branch_ = plan.workspace->Reserve("block.branch", stream);
  inner_ = plan.workspace->Reserve("block.inner", 3 * stream);
  attention_ = plan.workspace->Reserve(
      "block.attention", plan.backend->AttentionWorkspaceBytes(AttentionShape{
                             plan.max_batch, config.length, config.heads,
                             hidden_ / config.heads}));
}

Matrix AttentionBlock::Saved(kernels::Arena::Piece piece, int64_t rows) const {
  return Matrix(plan_.saved->Floats(piece), rows, hidden_);
}

ConstMatrix AttentionBlock::output(int64_t rows) const {
  return Saved(output_, rows);
}

AttentionShape AttentionBlock::Shape(const Step& step) const {
  const int64_t heads = plan_.config->heads;
  return {step.batch, step.length, heads, hidden_ / heads};
}

DropoutKey AttentionBlock::ProbabilityDropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout,
                      AttentionProbabilityDropout(layer_),
                      step.first_sample * plan_.config->heads * step.length);
}

DropoutKey AttentionBlock::OutputDropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, AttentionOutputDropout(layer_),
                      step.first_sample * step.length);
}

absl::Status AttentionBlock::Forward(const Step& step, ConstMatrix x,
                                     const float* mask) {
  kernels::Backend& backend = *plan_.backend;
  const int64_t rows = step.rows();
  const Matrix q = Saved(q_, rows), k = Saved(k_, rows), v = Saved(v_, rows);
  for (const auto& [linear, y] :
       {std::make_pair(query_.get(), q), std::make_pair(key_.get(), k),
        std::make_pair(value_.get(), v)}) {
    RETURN_IF_ERROR(linear->Prepare(step));
    RETURN_IF_ERROR(linear->Forward(step, x, y));
  }
  const Matrix context = Saved(context_, rows);
  RETURN_IF_ERROR(backend.Attention(
      Shape(step), ProbabilityDropout(step), q, k, v, ConstVector(mask, rows),
      plan_.saved->Floats(probabilities_), context));
  const Matrix branch(plan_.workspace->Floats(branch_), rows, hidden_);
  RETURN_IF_ERROR(projection_->Prepare(step));
  RETURN_IF_ERROR(projection_->Forward(step, context, branch));
  return backend.ResidualLayerNorm(
      OutputDropout(step), branch, x, step.Vector(gamma_), step.Vector(beta_),
      plan_.config->layer_norm_epsilon, Saved(normalised_, rows),
      {plan_.saved->Floats(deviation_), rows}, Saved(output_, rows));
}

absl::Status AttentionBlock::Backward(const Step& step, ConstMatrix grad_y,
                                      Matrix grad_x) {
  kernels::Backend& backend = *plan_.backend;
  const int64_t rows = step.rows();
  const DropoutKey dropout = OutputDropout(step);
  const Matrix branch(plan_.workspace->Floats(branch_), rows, hidden_);
  // Without dropout the branch's gradient is the residual's.
  const bool dropped = dropout.rate > 0;
  RETURN_IF_ERROR(backend.ResidualLayerNormBackward(
      dropout, grad_y, Saved(normalised_, rows),
      {plan_.saved->Floats(deviation_), rows}, step.Vector(gamma_),
      dropped ? branch : Matrix(nullptr, rows, hidden_), grad_x,
      step.Gradient(gamma_), step.Gradient(beta_)));

  float* inner = plan_.workspace->Floats(inner_);
  const Matrix grad_context(inner, rows, hidden_);
  RETURN_IF_ERROR(projection_->Backward(step, dropped ? branch : grad_x,
                                        grad_context, false));
  RETURN_IF_ERROR(projection_->FinishBackward(step));

  const Matrix grad_q = branch;
  const Matrix grad_k(inner + rows * hidden_, rows, hidden_);
  const Matrix grad_v(inner + 2 * rows * hidden_, rows, hidden_);
  RETURN_IF_ERROR(backend.AttentionBackward(
      Shape(step), ProbabilityDropout(step), Saved(q_, rows), Saved(k_, rows),
      Saved(v_, rows), plan_.saved->Floats(probabilities_), grad_context,
      grad_q, grad_k, grad_v, plan_.workspace->Floats(attention_)));
  for (const auto& [linear, grad] : {std::make_pair(query_.get(), grad_q),
                                     std::make_pair(key_.get(), grad_k),
                                     std::make_pair(value_.get(), grad_v)}) {
    RETURN_IF_ERROR(linear->Backward(step, grad, grad_x, true));
    RETURN_IF_ERROR(linear->FinishBackward(step));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
