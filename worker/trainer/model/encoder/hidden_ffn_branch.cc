// A feed-forward branch whose hidden layer is in memory.
#include "worker/trainer/model/encoder/hidden_ffn_branch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

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
using kernels::Matrix;

HiddenFfnBranch::HiddenFfnBranch(const Plan& plan, int64_t layer,
                                 std::unique_ptr<Linear> up,
                                 std::unique_ptr<Linear> down)
    : plan_(plan),
      width_(plan.config->ffn),
      up_(std::move(up)),
      down_(std::move(down)),
      keep_hidden_(!up_->repeats_cheaply()),
      block_rows_(keep_hidden_ ? plan.max_rows
                               : std::min(plan.max_rows, BlockRows(width_))) {
  const int64_t bytes = block_rows_ * width_ * int64_t{sizeof(float)};
  if (keep_hidden_) {
    kept_up_ =
        plan.saved->Reserve(absl::StrCat("layers.", layer, ".ffn.up"), bytes);
    kept_activated_ = plan.saved->Reserve(
        absl::StrCat("layers.", layer, ".ffn.activated"), bytes);
  } else {
    shared_up_ = plan.workspace->Reserve("ffn.up", bytes);
    shared_activated_ = plan.workspace->Reserve("ffn.activated", bytes);
  }
  inner_ = plan.workspace->Reserve("block.inner", bytes);
}

HiddenFfnBranch::HiddenBlock HiddenFfnBranch::Block(int64_t first,
                                                    int64_t rows) const {
  const int64_t count = std::min(block_rows_, rows - first);
  float* up = keep_hidden_ ? plan_.saved->Floats(kept_up_)
                           : plan_.workspace->Floats(shared_up_);
  float* activated = keep_hidden_ ? plan_.saved->Floats(kept_activated_)
                                  : plan_.workspace->Floats(shared_activated_);
  return {first, count, Matrix(up, count, width_),
          Matrix(activated, count, width_)};
}

absl::Status HiddenFfnBranch::Forward(const Step& step, ConstMatrix x,
                                      Matrix y) {
  RETURN_IF_ERROR(up_->Prepare(step));
  RETURN_IF_ERROR(down_->Prepare(step));
  for (int64_t first = 0; first < x.rows; first += block_rows_) {
    const HiddenBlock block = Block(first, x.rows);
    RETURN_IF_ERROR(
        up_->Forward(step, first, Rows(x, first, block.count), block.up));
    RETURN_IF_ERROR(plan_.backend->Activate(kernels::Activation::kGelu,
                                            block.up, block.activated));
    RETURN_IF_ERROR(down_->Forward(step, first, block.activated,
                                   Rows(y, first, block.count)));
  }
  return absl::OkStatus();
}

absl::Status HiddenFfnBranch::Backward(const Step& step, ConstMatrix x,
                                       ConstMatrix grad_y, Matrix grad_x) {
  for (int64_t first = 0; first < x.rows; first += block_rows_) {
    const HiddenBlock block = Block(first, x.rows);
    RETURN_IF_ERROR(BlockBackward(step, block, Rows(x, first, block.count),
                                  Rows(grad_y, first, block.count),
                                  Rows(grad_x, first, block.count)));
  }
  RETURN_IF_ERROR(down_->FinishBackward(step));
  return up_->FinishBackward(step);
}

absl::Status HiddenFfnBranch::BlockBackward(const Step& step,
                                            const HiddenBlock& block,
                                            ConstMatrix x, ConstMatrix grad_y,
                                            Matrix grad_x) {
  kernels::Backend& backend = *plan_.backend;
  if (!keep_hidden_) {
    RETURN_IF_ERROR(up_->Repeat(step, block.first, x, block.up));
    RETURN_IF_ERROR(backend.Activate(kernels::Activation::kGelu, block.up,
                                     block.activated));
  }
  const Matrix inner(plan_.workspace->Floats(inner_), block.count, width_);
  RETURN_IF_ERROR(down_->Backward(step, block.first, block.activated, grad_y,
                                  inner, false));
  RETURN_IF_ERROR(backend.ActivateBackward(kernels::Activation::kGelu, block.up,
                                           inner, inner));
  return up_->Backward(step, block.first, x, inner, grad_x, true);
}

}  // namespace comera::trainer
