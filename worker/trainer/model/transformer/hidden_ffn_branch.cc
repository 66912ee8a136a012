// A feed-forward branch whose hidden layer is in memory.
#include "worker/trainer/model/transformer/hidden_ffn_branch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

namespace {

// Rows enough for efficient products, few enough for the cache. A device, whose
// products are efficient from thousands of rows on, has 256 MiB for them.
int64_t BlockRows(int64_t width, bool on_host) {
  if (!on_host) return std::max<int64_t>((int64_t{1} << 26) / width, 1024);
  return std::clamp<int64_t>((int64_t{1} << 21) / width / 64 * 64, 128, 1024);
}

// Rows [first, first + count).
template <typename View>
View RowsOf(const View& m, int64_t first, int64_t count) {
  return View(m.data + first * m.stride, count, m.cols, m.stride);
}

}  // namespace

using kernels::ConstMatrix;
using kernels::Matrix;

HiddenFfnBranch::HiddenFfnBranch(const Plan& plan, int64_t layer,
                                 kernels::Activation f,
                                 std::unique_ptr<Linear> gate,
                                 std::unique_ptr<Linear> up,
                                 std::unique_ptr<Linear> down)
    : plan_(plan),
      width_(plan.config->ffn),
      f_(f),
      gate_(std::move(gate)),
      up_(std::move(up)),
      down_(std::move(down)),
      keep_(!up_->repeats_cheaply() ||
            (gate_ != nullptr && !gate_->repeats_cheaply())),
      block_rows_(
          keep_ && gate_ == nullptr
              ? plan.max_rows
              : std::min(plan.max_rows,
                         BlockRows(width_, plan.backend->in_host_memory()))) {
  if (gate_ != nullptr) gate_rows_ = Reserve(layer, "ffn.gate", keep_);
  up_rows_ = Reserve(layer, "ffn.up", keep_);
  activated_rows_ = Reserve(layer, "ffn.activated", keep_ && gate_ == nullptr);
  grad_rows_ = Reserve(layer, "block.inner", false);
}

HiddenFfnBranch::Buffer HiddenFfnBranch::Reserve(int64_t layer,
                                                 const std::string& name,
                                                 bool keep) const {
  const int64_t row_bytes = width_ * int64_t{sizeof(float)};
  Buffer buffer;
  buffer.kept = keep;
  if (keep) {
    buffer.all = plan_.saved->Reserve(absl::StrCat("layers.", layer, ".", name),
                                      plan_.max_rows * row_bytes);
  } else {
    buffer.block = plan_.workspace->Reserve(name, block_rows_ * row_bytes);
  }
  return buffer;
}

Matrix HiddenFfnBranch::Rows(const Buffer& buffer, int64_t first,
                             int64_t count) const {
  float* const data = buffer.kept
                          ? plan_.saved->Floats(buffer.all) + first * width_
                          : plan_.workspace->Floats(buffer.block);
  return Matrix(data, count, width_);
}

HiddenFfnBranch::HiddenBlock HiddenFfnBranch::Block(int64_t first,
                                                    int64_t rows) const {
  const int64_t count = std::min(block_rows_, rows - first);
  return {first, count,
          gate_ == nullptr ? Matrix() : Rows(gate_rows_, first, count),
          Rows(up_rows_, first, count), Rows(activated_rows_, first, count)};
}

absl::Status HiddenFfnBranch::Activate(const HiddenBlock& block) const {
  return gate_ == nullptr
             ? plan_.backend->Activate(f_, block.up, block.activated)
             : plan_.backend->Gated(f_, block.gate, block.up, block.activated);
}

absl::Status HiddenFfnBranch::Contract(const Step& step) {
  if (gate_ != nullptr) RETURN_IF_ERROR(gate_->Contract(step));
  RETURN_IF_ERROR(up_->Contract(step));
  return down_->Contract(step);
}

absl::Status HiddenFfnBranch::FinishBackward(const Step& step) {
  RETURN_IF_ERROR(down_->FinishBackward(step));
  if (gate_ != nullptr) RETURN_IF_ERROR(gate_->FinishBackward(step));
  return up_->FinishBackward(step);
}

absl::Status HiddenFfnBranch::Forward(const Step& step, ConstMatrix x,
                                      Matrix y) {
  for (int64_t first = 0; first < x.rows; first += block_rows_) {
    const HiddenBlock block = Block(first, x.rows);
    const ConstMatrix in = RowsOf(x, first, block.count);
    if (gate_ != nullptr) {
      RETURN_IF_ERROR(gate_->Forward(step, first, in, block.gate));
    }
    RETURN_IF_ERROR(up_->Forward(step, first, in, block.up));
    RETURN_IF_ERROR(Activate(block));
    RETURN_IF_ERROR(down_->Forward(step, first, block.activated,
                                   RowsOf(y, first, block.count)));
  }
  return absl::OkStatus();
}

absl::Status HiddenFfnBranch::Backward(const Step& step, ConstMatrix x,
                                       ConstMatrix grad_y, Matrix grad_x) {
  for (int64_t first = 0; first < x.rows; first += block_rows_) {
    const HiddenBlock block = Block(first, x.rows);
    RETURN_IF_ERROR(BlockBackward(step, block, RowsOf(x, first, block.count),
                                  RowsOf(grad_y, first, block.count),
                                  RowsOf(grad_x, first, block.count)));
  }
  return absl::OkStatus();
}

absl::Status HiddenFfnBranch::BlockBackward(const Step& step,
                                            const HiddenBlock& block,
                                            ConstMatrix x, ConstMatrix grad_y,
                                            Matrix grad_x) {
  kernels::Backend& backend = *plan_.backend;
  if (!keep_) {
    if (gate_ != nullptr) {
      RETURN_IF_ERROR(gate_->Repeat(step, block.first, x, block.gate));
    }
    RETURN_IF_ERROR(up_->Repeat(step, block.first, x, block.up));
  }
  if (!activated_rows_.kept) RETURN_IF_ERROR(Activate(block));
  const Matrix grad = Rows(grad_rows_, block.first, block.count);
  RETURN_IF_ERROR(
      down_->Backward(step, block.first, block.activated, grad_y, grad, false));
  if (gate_ == nullptr) {
    RETURN_IF_ERROR(backend.ActivateBackward(f_, block.up, grad, grad));
  } else {
    RETURN_IF_ERROR(backend.GatedBackward(f_, block.gate, block.up, grad,
                                          block.gate, grad));
    RETURN_IF_ERROR(
        gate_->Backward(step, block.first, x, block.gate, grad_x, true));
  }
  return up_->Backward(step, block.first, x, grad, grad_x, true);
}

}  // namespace comera::trainer
