// Looks TTM rows up one by one, keeping every intermediate for the way back.
#include "tests/bench/ttm_row_chain.h"

#include <algorithm>

#include "common/status_macros.h"

namespace comera::kernels {

TtmRowChain::TtmRowChain(Backend* backend, const TtmShape& shape,
                         int64_t max_ids)
    : backend_(backend), shape_(shape), digits_(shape.order()) {
  int64_t cols = 1, largest = 0;
  for (int k = 0; k < shape.order(); ++k) {
    cols_.push_back(cols);
    cols *= shape.col_modes[k];
    const bool inner = k > 0 && k + 1 < shape.order();
    const int64_t state = cols * shape.RightRank(k);
    states_.push_back(inner ? Floats(max_ids * state) : nullptr);
    transposed_.push_back(k > 0 ? Floats(shape.CoreSize(k)) : nullptr);
    largest = std::max(largest, state);
  }
  for (float*& grad : grads_) grad = Floats(largest);
}

TtmRowChain::~TtmRowChain() {
  for (void* each : memory_) backend_->Free(each);
}

float* TtmRowChain::Floats(int64_t count) {
  memory_.push_back(backend_->Allocate(count * sizeof(float)).value());
  bytes_ += count * sizeof(float);
  return static_cast<float*>(memory_.back());
}

int64_t TtmRowChain::SliceCols(int k) const {
  return shape_.col_modes[k] * shape_.RightRank(k);
}

template <typename T>
MatrixView<T> TtmRowChain::Slice(T* core, int k, int64_t digit) const {
  return MatrixView<T>(core + digit * SliceCols(k), shape_.LeftRank(k),
                       SliceCols(k), shape_.row_modes[k] * SliceCols(k));
}

void TtmRowChain::SetDigits(int64_t id) {
  for (int k = shape_.order() - 1; k >= 0; --k) {
    digits_[k] = id % shape_.row_modes[k];
    id /= shape_.row_modes[k];
  }
}

absl::Status TtmRowChain::Forward(absl::Span<const float* const> cores,
                                  absl::Span<const int32_t> ids, Matrix out) {
  const int last = shape_.order() - 1;
  for (int64_t i = 0; i < static_cast<int64_t>(ids.size()); ++i) {
    SetDigits(ids[i]);
    const float* state = Slice(cores[0], 0, digits_[0]).data;
    for (int k = 1; k <= last; ++k) {
      const int64_t size = cols_[k] * SliceCols(k);
      float* next =
          k == last ? out.data + i * out.stride : states_[k] + i * size;
      RETURN_IF_ERROR(backend_->Gemm(
          false, false, 1, ConstMatrix(state, cols_[k], shape_.LeftRank(k)),
          Slice(cores[k], k, digits_[k]), 0,
          Matrix(next, cols_[k], SliceCols(k))));
      state = next;
    }
  }
  return absl::OkStatus();
}

absl::Status TtmRowChain::Backward(absl::Span<const float* const> cores,
                                   absl::Span<const int32_t> ids,
                                   ConstMatrix grad_out,
                                   absl::Span<float* const> grad_cores) {
  const int last = shape_.order() - 1;
  for (int k = 1; k <= last; ++k) {
    // Transposes (left, mode, columns) to (mode, columns, left).
    RETURN_IF_ERROR(backend_->SwapMiddleAxes(1, shape_.LeftRank(k),
                                             shape_.row_modes[k] * SliceCols(k),
                                             1, cores[k], transposed_[k]));
  }
  for (int64_t i = 0; i < static_cast<int64_t>(ids.size()); ++i) {
    SetDigits(ids[i]);
    const float* grad = grad_out.data + i * grad_out.stride;
    for (int k = last; k >= 1; --k) {
      const int64_t left = shape_.LeftRank(k), width = SliceCols(k);
      const float* state = k == 1 ? Slice(cores[0], 0, digits_[0]).data
                                  : states_[k - 1] + i * cols_[k] * left;
      const ConstMatrix product(grad, cols_[k], width);
      RETURN_IF_ERROR(
          backend_->Gemm(true, false, 1, ConstMatrix(state, cols_[k], left),
                         product, 1, Slice(grad_cores[k], k, digits_[k])));
      const bool first = k == 1;
      float* next =
          first ? Slice(grad_cores[0], 0, digits_[0]).data : grads_[k % 2];
      RETURN_IF_ERROR(backend_->Gemm(
          false, false, 1, product,
          ConstMatrix(transposed_[k] + digits_[k] * width * left, width, left),
          first ? 1 : 0, Matrix(next, cols_[k], left)));
      grad = next;
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
