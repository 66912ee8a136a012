// A feed-forward branch whose rows are bfloat16.
#include "worker/trainer/model/encoder/bf16_ffn_branch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::Bf16Matrix;
using kernels::ConstBf16Matrix;

namespace {

template <typename View>
View RowsOf(const View& m, int64_t first, int64_t count) {
  return View(m.data + first * m.stride, count, m.cols, m.stride);
}

}  // namespace

Bf16FfnBranch::Bf16FfnBranch(const Plan& plan, int64_t layer,
                             kernels::Activation f, std::unique_ptr<Linear> up,
                             std::unique_ptr<Linear> down,
                             int64_t block_elements)
    : plan_(plan),
      width_(plan.config->ffn),
      f_(f),
      up_layer_(std::move(up)),
      down_layer_(std::move(down)),
      up_(plan, absl::StrCat("layers.", layer, ".ffn_up.bf16"),
          {up_layer_->rank_space()}),
      down_(plan, absl::StrCat("layers.", layer, ".ffn_down.bf16"),
            {down_layer_->rank_space()}),
      block_rows_(std::min(plan.max_rows,
                           std::max<int64_t>(block_elements / width_, 1))) {
  const int64_t bytes = block_rows_ * width_ * int64_t{sizeof(uint16_t)};
  before_ = plan.workspace->Reserve("ffn.before", bytes);
  after_ = plan.workspace->Reserve("ffn.after", bytes);
}

template <typename F>
absl::Status Bf16FfnBranch::ForEachBlock(int64_t rows, F f) const {
  for (int64_t first = 0; first < rows; first += block_rows_) {
    RETURN_IF_ERROR(f(first, std::min(block_rows_, rows - first)));
  }
  return absl::OkStatus();
}

Bf16Matrix Bf16FfnBranch::Before(int64_t rows) const {
  return Bf16Matrix(plan_.workspace->Bf16(before_), rows, width_);
}

Bf16Matrix Bf16FfnBranch::After(int64_t rows) const {
  return Bf16Matrix(plan_.workspace->Bf16(after_), rows, width_);
}

absl::Status Bf16FfnBranch::Contract(const Step& step) {
  RETURN_IF_ERROR(up_layer_->Contract(step));
  RETURN_IF_ERROR(down_layer_->Contract(step));
  RETURN_IF_ERROR(up_.Contract());
  return down_.Contract();
}

absl::Status Bf16FfnBranch::FinishBackward(const Step& step) {
  RETURN_IF_ERROR(down_layer_->FinishBackward(step));
  return up_layer_->FinishBackward(step);
}

absl::Status Bf16FfnBranch::Hidden(int64_t first, int64_t rows) {
  RETURN_IF_ERROR(up_.Expand(first, Before(rows)));
  return plan_.backend->ActivateBf16(f_, Before(rows), After(rows));
}

absl::Status Bf16FfnBranch::Forward(const Step&, ConstBf16Matrix x,
                                    Bf16Matrix y) {
  return ForEachBlock(x.rows, [&](int64_t first, int64_t rows) -> absl::Status {
    RETURN_IF_ERROR(up_.Project(first, RowsOf(x, first, rows)));
    RETURN_IF_ERROR(Hidden(first, rows));
    RETURN_IF_ERROR(down_.Project(first, After(rows)));
    return down_.Expand(first, RowsOf(y, first, rows));
  });
}

absl::Status Bf16FfnBranch::Backward(const Step&, ConstBf16Matrix x,
                                     ConstBf16Matrix grad_y,
                                     Bf16Matrix grad_x) {
  return ForEachBlock(x.rows, [&](int64_t first, int64_t rows) -> absl::Status {
    const Bf16Matrix before = Before(rows), after = After(rows);
    RETURN_IF_ERROR(Hidden(first, rows));
    // the lower layer, and the hidden layer's gradient
    RETURN_IF_ERROR(down_.BackwardExpand(first, RowsOf(grad_y, first, rows)));
    RETURN_IF_ERROR(down_.BackwardProject(after, after, false));
    RETURN_IF_ERROR(
        plan_.backend->ActivateBackwardBf16(f_, before, after, after));
    // the upper layer
    RETURN_IF_ERROR(up_.BackwardExpand(first, after));
    return up_.BackwardProject(RowsOf(x, first, rows),
                               RowsOf(grad_x, first, rows), true);
  });
}

}  // namespace comera::trainer
