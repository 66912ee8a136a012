// Copies of operands as panel products want them.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_PANEL_PACK_H_
#define COMERA_KERNELS_CPU_PRODUCTS_PANEL_PACK_H_

#include <algorithm>
#include <cstdint>

#include "kernels/tensor.h"

namespace comera::kernels {

inline int64_t RoundUp(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

// to (rows, to_cols), packed: from, with zeros to its right.
inline void PackRows(ConstMatrix from, int64_t to_cols, float* to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    const float* row = from.data + i * from.stride;
    float* end = std::copy(row, row + from.cols, to + i * to_cols);
    std::fill(end, to + (i + 1) * to_cols, 0.0f);
  }
}

// to (to_rows, to_cols), packed: from transposed, with zeros around it.
inline void PackTransposed(ConstMatrix from, int64_t to_rows, int64_t to_cols,
                           float* to) {
  std::fill(to, to + to_rows * to_cols, 0.0f);
  for (int64_t i = 0; i < from.rows; ++i) {
    const float* row = from.data + i * from.stride;
    for (int64_t j = 0; j < from.cols; ++j) to[j * to_cols + i] = row[j];
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_PANEL_PACK_H_
