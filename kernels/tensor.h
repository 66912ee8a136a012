// Views of memory that a Backend owns or knows. A view never owns.
#ifndef COMERA_KERNELS_TENSOR_H_
#define COMERA_KERNELS_TENSOR_H_

#include <cstdint>

namespace comera::kernels {

// A row-major matrix; row i begins at data + i * stride.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* d, int64_t r, int64_t c)
      : data(d), rows(r), cols(c), stride(c) {}
  MatrixView(T* d, int64_t r, int64_t c, int64_t s)
      : data(d), rows(r), cols(c), stride(s) {}
  // A mutable view is a const view.
  template <typename U>
  MatrixView(const MatrixView<U>& o)  // NOLINT: implicit like a pointer's
      : data(o.data), rows(o.rows), cols(o.cols), stride(o.stride) {}
};
using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;
// A matrix of bfloat16 numbers, as their 16 bits.
using Bf16Matrix = MatrixView<uint16_t>;
using ConstBf16Matrix = MatrixView<const uint16_t>;

// A contiguous vector.
template <typename T>
struct VectorView {
  T* data = nullptr;
  int64_t size = 0;

  VectorView() = default;
  VectorView(T* d, int64_t n) : data(d), size(n) {}
  template <typename U>
  VectorView(const VectorView<U>& o)  // NOLINT: implicit like a pointer's
      : data(o.data), size(o.size) {}
};
using Vector = VectorView<float>;
using ConstVector = VectorView<const float>;
using ConstIndices = VectorView<const int32_t>;

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_TENSOR_H_
