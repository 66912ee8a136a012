#include "worker/trainer/model/ffn_block.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/dropout_sites.h"

namespace comera::trainer {

namespace {

// Rows enough for efficient products, few enough for the cache.
int64_t BlockRows(int64_t width) {
  return std::clamp<int64_t>((int64_t{1} << 21) / width / 64 * 64, 128, 1024);
}

// Rows [first, first + count).
template <typename View>
View Rows(const View& m, int64_t first, int64_t count) {
  return View(m.data + first * m.stride, count, m.cols, m.stride);
}

}  // namespace

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
                   "ffn.up");
  down_ = MakeLinear(plan, absl::StrCat("layers.", layer, ".ffn_down"), rows,
                     "ffn.down");
  keep_hidden_ = !up_->repeats_cheaply();
  block_rows_ = keep_hidden_ ? rows : std::min(rows, BlockRows(width_));

  const int64_t row_bytes = rows * int64_t{sizeof(float)};
  const auto save = [&](const char* name, int64_t bytes) {
    return plan.saved->Reserve(absl::StrCat("layers.", layer, ".ffn.", name),
                               bytes);
  };
  const int64_t hidden_bytes = block_rows_ * width_ * int64_t{sizeof(float)};
  if (keep_hidden_) {
    kept_up_ = save("up", hidden_bytes);
    kept_activated_ = save("activated", hidden_bytes);
  } else {
    shared_up_ = plan.workspace->Reserve("ffn.up", hidden_bytes);
    shared_activated_ = plan.workspace->Reserve("ffn.activated", hidden_bytes);
  }
  normalised_ = save("normalised", hidden_ * row_bytes);
  deviation_ = save("deviation", row_bytes);
  output_ = save("output", hidden_ * row_bytes);

  branch_ = plan.workspace->Reserve("block.branch", hidden_ * row_bytes);
  inner_ = plan.workspace->Reserve("block.inner", hidden_bytes);
}

ConstMatrix FfnBlock::output(int64_t rows) const {
  return ConstMatrix(plan_.saved->Floats(output_), rows, hidden_);
}

FfnBlock::HiddenBlock FfnBlock::Block(int64_t first, int64_t rows) const {
  const int64_t count = std::min(block_rows_, rows - first);
  float* up = keep_hidden_ ? plan_.saved->Floats(kept_up_)
                           : plan_.workspace->Floats(shared_up_);
  float* activated = keep_hidden_ ? plan_.saved->Floats(kept_activated_)
                                  : plan_.workspace->Floats(shared_activated_);
  return {first, count, Matrix(up, count, width_),
          Matrix(activated, count, width_)};
}

DropoutKey FfnBlock::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, FfnOutputDropout(layer_),
                      step.first_sample * step.length);
}

absl::Status FfnBlock::Forward(const Step& step, ConstMatrix x) {
  kernels::Backend& backend = *plan_.backend;
  const kernels::Arena& saved = *plan_.saved;
  const int64_t rows = step.rows();
  const Matrix branch(plan_.workspace->Floats(branch_), rows, hidden_);
  RETURN_IF_ERROR(up_->Prepare(step));
  RETURN_IF_ERROR(down_->Prepare(step));
  for (int64_t first = 0; first < rows; first += block_rows_) {
    const HiddenBlock block = Block(first, rows);
    RETURN_IF_ERROR(
        up_->Forward(step, first, Rows(x, first, block.count), block.up));
    RETURN_IF_ERROR(backend.Gelu(block.up, block.activated));
    RETURN_IF_ERROR(down_->Forward(step, first, block.activated,
                                   Rows(branch, first, block.count)));
  }
  return backend.ResidualLayerNorm(
      Dropout(step), branch, x, step.Vector(gamma_), step.Vector(beta_),
      plan_.config->layer_norm_epsilon,
      Matrix(saved.Floats(normalised_), rows, hidden_),
      {saved.Floats(deviation_), rows},
      Matrix(saved.Floats(output_), rows, hidden_));
}

absl::Status FfnBlock::Backward(const Step& step, ConstMatrix x,
                                ConstMatrix grad_y, Matrix grad_x) {
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

  const ConstMatrix grad_branch = dropped ? branch : grad_x;
  for (int64_t first = 0; first < rows; first += block_rows_) {
    const HiddenBlock block = Block(first, rows);
    RETURN_IF_ERROR(BlockBackward(step, block, Rows(x, first, block.count),
                                  Rows(grad_branch, first, block.count),
                                  Rows(grad_x, first, block.count)));
  }
  RETURN_IF_ERROR(down_->FinishBackward(step));
  return up_->FinishBackward(step);
}

absl::Status FfnBlock::BlockBackward(const Step& step, const HiddenBlock& block,
                                     ConstMatrix x, ConstMatrix grad_branch,
                                     Matrix grad_x) {
  kernels::Backend& backend = *plan_.backend;
  if (!keep_hidden_) {
    RETURN_IF_ERROR(up_->Repeat(step, block.first, x, block.up));
    RETURN_IF_ERROR(backend.Gelu(block.up, block.activated));
  }
  const Matrix inner(plan_.workspace->Floats(inner_), block.count, width_);
  RETURN_IF_ERROR(down_->Backward(step, block.first, block.activated,
                                  grad_branch, inner, false));
  RETURN_IF_ERROR(backend.GeluBackward(block.up, inner, inner));
  return up_->Backward(step, block.first, x, inner, grad_x, true);
}

}  // namespace comera::trainer
