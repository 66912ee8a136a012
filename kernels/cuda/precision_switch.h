// Turns the numbers of a call into the template arguments of its kernel.
#ifndef COMERA_KERNELS_CUDA_PRECISION_SWITCH_H_
#define COMERA_KERNELS_CUDA_PRECISION_SWITCH_H_

#include <type_traits>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Calls f(std::integral_constant) of the precision; returns what it returns.
template <typename F>
auto SwitchPrecision(CudaPrecision precision, const F& f) {
  switch (precision) {
    case CudaPrecision::kTf32:
      return f(std::integral_constant<CudaPrecision, CudaPrecision::kTf32>());
    case CudaPrecision::kBf16:
      return f(std::integral_constant<CudaPrecision, CudaPrecision::kBf16>());
    case CudaPrecision::kFp32:
      break;
  }
  return f(std::integral_constant<CudaPrecision, CudaPrecision::kFp32>());
}

// Calls f(std::integral_constant) of 1, 2 or 4.
template <typename F>
auto SwitchTiles(int tiles, const F& f) {
  if (tiles == 1) return f(std::integral_constant<int, 1>());
  if (tiles == 2) return f(std::integral_constant<int, 2>());
  return f(std::integral_constant<int, 4>());
}

inline DeviceMatrix ViewOf(ConstMatrix m) {
  return {m.data, static_cast<int>(m.stride), static_cast<int>(m.rows),
          static_cast<int>(m.cols)};
}

// Rows [first, first + count) of m.
template <typename T>
MatrixView<T> Rows(MatrixView<T> m, int64_t first, int64_t count) {
  return {m.data + first * m.stride, count, m.cols, m.stride};
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_PRECISION_SWITCH_H_
