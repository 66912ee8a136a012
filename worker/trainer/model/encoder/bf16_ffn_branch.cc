// A feed-forward branch whose hidden layer is in memory as bfloat16.
#include "worker/trainer/model/encoder/bf16_ffn_branch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/together.h"

namespace comera::trainer {

using kernels::Bf16Matrix;
using kernels::ConstBf16Matrix;
using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kBf16Bytes = 2;
// Numbers in 16 bytes: the fast products want sizes of a multiple.
constexpr int64_t kVector = 8;
// Elements of a hidden block, 256 MiB.
constexpr int64_t kBlockElements = int64_t{1} << 27;

template <typename View>
View RowsOf(const View& m, int64_t first, int64_t count) {
  return View(m.data + first * m.stride, count, m.cols, m.stride);
}

uint16_t* Bf16(void* memory) { return static_cast<uint16_t*>(memory); }

}  // namespace

bool Bf16FfnBranch::Allowed(const Plan& plan, Linear& up, Linear& down) {
  const RankSpaceLinear* const u = up.rank_space();
  const RankSpaceLinear* const d = down.rank_space();
  return plan.backend->has_bf16() && u != nullptr && d != nullptr &&
         u->rank() % kVector == 0 && d->rank() % kVector == 0 &&
         plan.config->ffn % kVector == 0;
}

Bf16FfnBranch::Bf16FfnBranch(const Plan& plan, int64_t layer,
                             kernels::Activation f, std::unique_ptr<Linear> up,
                             std::unique_ptr<Linear> down)
    : plan_(plan),
      width_(plan.config->ffn),
      f_(f),
      up_layer_(std::move(up)),
      down_layer_(std::move(down)),
      up_(*up_layer_->rank_space()),
      down_(*down_layer_->rank_space()),
      block_rows_(std::min(plan.max_rows,
                           std::max<int64_t>(kBlockElements / width_, 1024))),
      padded_(up_.PaddedB().rows) {
  const auto save = [&](const char* name, int64_t elements) {
    return plan.saved->Reserve(absl::StrCat("layers.", layer, ".ffn.", name),
                               elements * kBf16Bytes);
  };
  t_ = save("t", plan.max_rows * padded_);
  b_ = save("b", padded_ * width_);
  a_ = save("a", width_ * down_.rank());
  const int64_t block_bytes = block_rows_ * width_ * kBf16Bytes;
  before_ = plan.workspace->Reserve("ffn.before", block_bytes);
  after_ = plan.workspace->Reserve("ffn.after", block_bytes);
  u_ =
      plan.workspace->Reserve("ffn.u", block_rows_ * down_.rank() * kBf16Bytes);
}

template <typename F>
absl::Status Bf16FfnBranch::ForEachBlock(int64_t rows, F f) const {
  for (int64_t first = 0; first < rows; first += block_rows_) {
    RETURN_IF_ERROR(f(Rows{first, std::min(block_rows_, rows - first)}));
  }
  return absl::OkStatus();
}

Bf16Matrix Bf16FfnBranch::Before(Rows rows) const {
  return Bf16Matrix(Bf16(plan_.workspace->Floats(before_)), rows.count, width_);
}

Bf16Matrix Bf16FfnBranch::After(Rows rows) const {
  return Bf16Matrix(Bf16(plan_.workspace->Floats(after_)), rows.count, width_);
}

Bf16Matrix Bf16FfnBranch::T(Rows rows) const {
  return Bf16Matrix(Bf16(plan_.saved->Address(t_)) + rows.first * padded_,
                    rows.count, padded_);
}

Bf16Matrix Bf16FfnBranch::B() const {
  return Bf16Matrix(Bf16(plan_.saved->Address(b_)), padded_, width_);
}

Bf16Matrix Bf16FfnBranch::A() const {
  return Bf16Matrix(Bf16(plan_.saved->Address(a_)), width_, down_.rank());
}

absl::Status Bf16FfnBranch::Contract(const Step& step) {
  RETURN_IF_ERROR(up_layer_->Contract(step));
  return down_layer_->Contract(step);
}

absl::Status Bf16FfnBranch::FinishBackward(const Step& step) {
  RETURN_IF_ERROR(down_layer_->FinishBackward(step));
  return up_layer_->FinishBackward(step);
}

absl::Status Bf16FfnBranch::Forward(const Step&, ConstMatrix x, Matrix y) {
  RETURN_IF_ERROR(kernels::RunTogether(plan_.backend, [&]() -> absl::Status {
    RETURN_IF_ERROR(up_layer_->BeginForward());
    return down_layer_->BeginForward();
  }));
  RETURN_IF_ERROR(plan_.backend->Round(up_.PaddedB(), B()));
  RETURN_IF_ERROR(plan_.backend->Round(down_.A(), A()));
  return ForEachBlock(x.rows, [&](Rows rows) {
    return ForwardBlock(rows, RowsOf(x, rows.first, rows.count),
                        RowsOf(y, rows.first, rows.count));
  });
}

absl::Status Bf16FfnBranch::Hidden(Rows rows) {
  RETURN_IF_ERROR(
      plan_.backend->GemmToBf16(false, false, T(rows), B(), Before(rows)));
  return plan_.backend->ActivateBf16(f_, Before(rows), After(rows));
}

absl::Status Bf16FfnBranch::ForwardBlock(Rows rows, ConstMatrix x, Matrix y) {
  RETURN_IF_ERROR(up_.Project(rows.first, x));
  RETURN_IF_ERROR(up_.Activate(rows.first, rows.count));
  RETURN_IF_ERROR(
      plan_.backend->Round(up_.PaddedT(rows.first, rows.count), T(rows)));
  RETURN_IF_ERROR(Hidden(rows));
  RETURN_IF_ERROR(plan_.backend->GemmBf16(false, false, After(rows), A(), 0,
                                          down_.T(rows.first, rows.count)));
  RETURN_IF_ERROR(down_.Activate(rows.first, rows.count));
  return down_.Expand(rows.first, y);
}

absl::Status Bf16FfnBranch::Backward(const Step&, ConstMatrix x,
                                     ConstMatrix grad_y, Matrix grad_x) {
  RETURN_IF_ERROR(kernels::RunTogether(plan_.backend, [&]() -> absl::Status {
    RETURN_IF_ERROR(up_.BeginBackward());
    return down_.BeginBackward();
  }));
  return ForEachBlock(x.rows, [&](Rows rows) {
    return BackwardBlock(rows, RowsOf(x, rows.first, rows.count),
                         RowsOf(grad_y, rows.first, rows.count),
                         RowsOf(grad_x, rows.first, rows.count));
  });
}

absl::Status Bf16FfnBranch::BackwardBlock(Rows rows, ConstMatrix x,
                                          ConstMatrix grad_y, Matrix grad_x) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(Hidden(rows));
  // the lower layer
  const Matrix grad_t2 = down_.U(rows.count);
  RETURN_IF_ERROR(down_.BackwardExpand(rows.first, grad_y, grad_t2));
  const Bf16Matrix u(Bf16(plan_.workspace->Floats(u_)), rows.count,
                     down_.rank());
  RETURN_IF_ERROR(backend.Round(grad_t2, u));
  RETURN_IF_ERROR(
      backend.GemmBf16(true, false, After(rows), u, 1, down_.grad_a()));
  // the hidden layer
  RETURN_IF_ERROR(backend.GemmToBf16(false, true, u, A(), After(rows)));
  RETURN_IF_ERROR(
      backend.ActivateBackwardBf16(f_, Before(rows), After(rows), After(rows)));
  // the upper layer
  RETURN_IF_ERROR(backend.GemmBf16(true, false, T(rows), After(rows), 1,
                                   up_.padded_grad_b()));
  const Matrix grad_t1 = up_.U(rows.count);
  const ConstBf16Matrix b(B().data, up_.rank(), width_);
  RETURN_IF_ERROR(backend.GemmBf16(false, true, After(rows), b, 0, grad_t1));
  RETURN_IF_ERROR(up_.BackwardActivate(rows.first, grad_t1));
  return up_.BackwardProject(x, grad_t1, grad_x, true);
}

}  // namespace comera::trainer
