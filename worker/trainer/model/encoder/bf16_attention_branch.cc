// Attention whose queries, keys and values are bfloat16.
#include "worker/trainer/model/encoder/bf16_attention_branch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::AttentionShape;
using kernels::Bf16Matrix;
using kernels::ConstBf16Matrix;

Bf16AttentionBranch::Bf16AttentionBranch(const Plan& plan, int64_t layer,
                                         AttentionProjections projections)
    : plan_(plan),
      layer_(layer),
      hidden_(plan.config->hidden),
      projections_(std::move(projections)),
      inputs_(plan, absl::StrCat("layers.", layer, ".attention.bf16"),
              {projections_.query->rank_space(), projections_.key->rank_space(),
               projections_.value->rank_space()}),
      output_(plan, absl::StrCat("layers.", layer, ".output.bf16"),
              {projections_.output->rank_space()}) {
  const int64_t rows = plan.max_rows;
  const int64_t bytes = rows * hidden_ * int64_t{sizeof(uint16_t)};
  const auto save = [&](const char* name, int64_t size) {
    return plan.saved->Reserve(
        absl::StrCat("layers.", layer, ".attention.", name), size);
  };
  context_ = save("context", bytes);
  log_sum_ =
      save("log_sum", rows * plan.config->heads * int64_t{sizeof(float)});
  projected_ = plan.workspace->Reserve("attention.projected", 3 * bytes);
  grads_ = plan.workspace->Reserve("attention.grads", 3 * bytes);
  grad_context_ = plan.workspace->Reserve("attention.grad_context", bytes);
  attention_ = plan.workspace->Reserve(
      "attention.scratch", plan.backend->AttentionWorkspaceBytes(Shape(
                               plan.max_sequences, rows, plan.config->length)));
}

Bf16Matrix Bf16AttentionBranch::Part(Workspace::Piece piece, int i,
                                     int64_t rows) const {
  return Bf16Matrix(plan_.workspace->Bf16(piece) + i * rows * hidden_, rows,
                    hidden_);
}

Bf16Matrix Bf16AttentionBranch::Context(int64_t rows) const {
  return Bf16Matrix(plan_.saved->Bf16(context_), rows, hidden_);
}

AttentionShape Bf16AttentionBranch::Shape(int64_t sequences, int64_t tokens,
                                          int64_t max_length) const {
  AttentionShape shape;
  shape.sequences = sequences;
  shape.tokens = tokens;
  shape.max_length = max_length;
  shape.heads = plan_.config->heads;
  shape.head_width = plan_.config->head_width();
  return shape;
}

kernels::DropoutKey Bf16AttentionBranch::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout,
                      AttentionProbabilityDropout(layer_));
}

absl::Status Bf16AttentionBranch::Contract(const Step& step) {
  for (const auto* layer : {&projections_.query, &projections_.key,
                            &projections_.value, &projections_.output}) {
    RETURN_IF_ERROR((*layer)->Contract(step));
  }
  RETURN_IF_ERROR(inputs_.Contract());
  return output_.Contract();
}

absl::Status Bf16AttentionBranch::FinishBackward(const Step& step) {
  for (const auto* layer : {&projections_.output, &projections_.query,
                            &projections_.key, &projections_.value}) {
    RETURN_IF_ERROR((*layer)->FinishBackward(step));
  }
  return absl::OkStatus();
}

absl::Status Bf16AttentionBranch::Forward(const Step& step, ConstBf16Matrix x,
                                          Bf16Matrix y) {
  const int64_t rows = step.rows();
  RETURN_IF_ERROR(inputs_.Project(0, x));
  RETURN_IF_ERROR(inputs_.Expand(0, Part(projected_, 0, rows), rows * hidden_));
  RETURN_IF_ERROR(plan_.backend->AttentionBf16(
      Shape(step.sequences, step.tokens, step.max_length), Dropout(step),
      step.offsets, Part(projected_, 0, rows), Part(projected_, 1, rows),
      Part(projected_, 2, rows), plan_.saved->Floats(log_sum_), Context(rows),
      plan_.workspace->Floats(attention_)));
  RETURN_IF_ERROR(output_.Project(0, Context(rows)));
  return output_.Expand(0, y);
}

absl::Status Bf16AttentionBranch::Backward(const Step& step, ConstBf16Matrix x,
                                           ConstBf16Matrix grad_y,
                                           Bf16Matrix grad_x) {
  const int64_t rows = step.rows();
  const Bf16Matrix grad_context(plan_.workspace->Bf16(grad_context_), rows,
                                hidden_);
  RETURN_IF_ERROR(output_.BackwardExpand(0, grad_y));
  RETURN_IF_ERROR(output_.BackwardProject(Context(rows), grad_context, false));
  RETURN_IF_ERROR(inputs_.Expand(0, Part(projected_, 0, rows), rows * hidden_));
  RETURN_IF_ERROR(plan_.backend->AttentionBackwardBf16(
      Shape(step.sequences, step.tokens, step.max_length), Dropout(step),
      step.offsets, Part(projected_, 0, rows), Part(projected_, 1, rows),
      Part(projected_, 2, rows), plan_.saved->Floats(log_sum_), Context(rows),
      grad_context, Part(grads_, 0, rows), Part(grads_, 1, rows),
      Part(grads_, 2, rows), plan_.workspace->Floats(attention_)));
  RETURN_IF_ERROR(
      inputs_.BackwardExpand(0, Part(grads_, 0, rows), rows * hidden_));
  return inputs_.BackwardProject(x, grad_x, true);
}

}  // namespace comera::trainer
