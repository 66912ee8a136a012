// Attention whose queries, keys and values are in memory.
#include "worker/trainer/model/transformer/ordinary_attention_branch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/dropout_sites.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::AttentionShape;
using kernels::ConstMatrix;
using kernels::DropoutKey;
using kernels::Matrix;

namespace {

// The length from which a host's memory keeps the heads' outputs: at 512 they
// save 8% of a step of CodeBERT-LARGE for 3% more memory, at 128 at most 2%.
constexpr int64_t kLongLength = 256;

}  // namespace

OrdinaryAttentionBranch::OrdinaryAttentionBranch(
    const Plan& plan, int64_t layer, AttentionProjections projections)
    : plan_(plan),
      layer_(layer),
      hidden_(plan.config->hidden),
      key_width_(plan.config->key_width()),
      projections_(std::move(projections)) {
  for (int i = 0; i < 3; ++i) keep_ |= !In(i).repeats_cheaply();
  keep_context_ = keep_ || !plan.backend->in_host_memory() ||
                  plan.config->length >= kLongLength;
  const ModelConfig& config = *plan.config;
  const int64_t rows = plan.max_rows;
  const int64_t stream = rows * hidden_ * int64_t{sizeof(float)};
  const int64_t keys = rows * key_width_ * int64_t{sizeof(float)};
  const auto save = [&](const char* name, int64_t bytes) {
    return plan.saved->Reserve(
        absl::StrCat("layers.", layer, ".attention.", name), bytes);
  };
  constexpr const char* kParts[] = {"query", "key", "value"};
  for (int i = 0; i < 3; ++i) {
    kept_[i] = save(kParts[i], !keep_ ? 0 : i == 0 ? stream : keys);
  }
  const int64_t sums = rows * config.heads * int64_t{sizeof(float)};
  kept_context_ = save("context", keep_context_ ? stream : 0);
  kept_log_sum_ = save("log_sum", keep_context_ ? sums : 0);
  shared_ = plan.workspace->Reserve("attention.projected",
                                    keep_ ? 0 : stream + 2 * keys);
  shared_log_sum_ =
      plan.workspace->Reserve("attention.log_sum", keep_context_ ? 0 : sums);
  branch_ = plan.workspace->Reserve("block.branch", stream);
  inner_ = plan.workspace->Reserve("block.inner", 2 * stream + keys);
  attention_ = plan.workspace->Reserve(
      "attention.scratch", plan.backend->AttentionWorkspaceBytes(
                               Shape(plan.max_sequences, rows, config.length)));
}

Linear& OrdinaryAttentionBranch::In(int part) const {
  return part == 0   ? *projections_.query
         : part == 1 ? *projections_.key
                     : *projections_.value;
}

Matrix OrdinaryAttentionBranch::Projected(int part, int64_t rows) const {
  if (keep_) {
    return Matrix(plan_.saved->Floats(kept_[part]), rows, Width(part));
  }
  const int64_t before = part == 0 ? 0 : hidden_ + (part - 1) * key_width_;
  return Matrix(plan_.workspace->Floats(shared_) + before * rows, rows,
                Width(part));
}

Matrix OrdinaryAttentionBranch::Context(int64_t rows) const {
  // Backward later puts the gradient of the keys there.
  float* data = keep_context_
                    ? plan_.saved->Floats(kept_context_)
                    : plan_.workspace->Floats(inner_) + rows * hidden_;
  return Matrix(data, rows, hidden_);
}

float* OrdinaryAttentionBranch::LogSum() const {
  return keep_context_ ? plan_.saved->Floats(kept_log_sum_)
                       : plan_.workspace->Floats(shared_log_sum_);
}

AttentionShape OrdinaryAttentionBranch::Shape(int64_t sequences, int64_t tokens,
                                              int64_t max_length) const {
  const ModelConfig& config = *plan_.config;
  return {sequences,           tokens,          max_length,     config.heads,
          config.head_width(), config.kv_heads, config.causal()};
}

AttentionShape OrdinaryAttentionBranch::Shape(const Step& step) const {
  return Shape(step.sequences, step.tokens, step.max_length);
}

absl::Status OrdinaryAttentionBranch::Rotate(const Step& step, bool inverse,
                                             Matrix query, Matrix key) const {
  const ModelConfig& config = *plan_.config;
  if (!config.llama()) return absl::OkStatus();
  for (const Matrix& x : {query, key}) {
    RETURN_IF_ERROR(plan_.backend->Rotate(
        config.head_width(), config.rope_theta, inverse, step.positions, x));
  }
  return absl::OkStatus();
}

absl::Status OrdinaryAttentionBranch::Attend(const Step& step) {
  const int64_t rows = step.rows();
  RETURN_IF_ERROR(Rotate(step, false, Projected(0, rows), Projected(1, rows)));
  const DropoutKey dropout =
      step.Dropout(plan_.config->dropout, AttentionProbabilityDropout(layer_));
  return plan_.backend->Attention(Shape(step), dropout, step.offsets,
                                  Projected(0, rows), Projected(1, rows),
                                  Projected(2, rows), LogSum(), Context(rows),
                                  plan_.workspace->Floats(attention_));
}

absl::Status OrdinaryAttentionBranch::Contract(const Step& step) {
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(In(i).Contract(step));
  return projections_.output->Contract(step);
}

absl::Status OrdinaryAttentionBranch::FinishBackward(const Step& step) {
  RETURN_IF_ERROR(projections_.output->FinishBackward(step));
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(In(i).FinishBackward(step));
  return absl::OkStatus();
}

absl::Status OrdinaryAttentionBranch::Forward(const Step& step, ConstMatrix x,
                                              Matrix y) {
  const int64_t rows = step.rows();
  for (int i = 0; i < 3; ++i) {
    RETURN_IF_ERROR(In(i).Forward(step, 0, x, Projected(i, rows)));
  }
  RETURN_IF_ERROR(Attend(step));
  return projections_.output->Forward(step, 0, Context(rows), y);
}

absl::Status OrdinaryAttentionBranch::Backward(const Step& step, ConstMatrix x,
                                               ConstMatrix grad_y,
                                               Matrix grad_x) {
  const int64_t rows = step.rows();
  float* inner = plan_.workspace->Floats(inner_);
  const Matrix grad_context(inner, rows, hidden_);
  // A grad_y that lies there is no longer needed by then.
  const Matrix grads[] = {
      Matrix(plan_.workspace->Floats(branch_), rows, hidden_),
      Matrix(inner + rows * hidden_, rows, key_width_),
      Matrix(inner + 2 * rows * hidden_, rows, key_width_)};
  if (!keep_) {
    for (int i = 0; i < 3; ++i) {
      RETURN_IF_ERROR(In(i).Repeat(step, 0, x, Projected(i, rows)));
    }
    RETURN_IF_ERROR(keep_context_ ? Rotate(step, false, Projected(0, rows),
                                           Projected(1, rows))
                                  : Attend(step));
  }
  RETURN_IF_ERROR(projections_.output->Backward(step, 0, Context(rows), grad_y,
                                                grad_context, false));
  const DropoutKey dropout =
      step.Dropout(plan_.config->dropout, AttentionProbabilityDropout(layer_));
  RETURN_IF_ERROR(plan_.backend->AttentionBackward(
      Shape(step), dropout, step.offsets, Projected(0, rows),
      Projected(1, rows), Projected(2, rows), LogSum(),
      keep_context_ ? Context(rows) : Matrix(), grad_context, grads[0],
      grads[1], grads[2], plan_.workspace->Floats(attention_)));
  RETURN_IF_ERROR(Rotate(step, true, grads[0], grads[1]));
  for (int i = 0; i < 3; ++i) {
    RETURN_IF_ERROR(In(i).Backward(step, 0, x, grads[i], grad_x, true));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
