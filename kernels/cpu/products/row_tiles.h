// Products of a few rows with four rows that come from memory once: dot
// products and weighted sums.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_ROW_TILES_H_
#define COMERA_KERNELS_CPU_PRODUCTS_ROW_TILES_H_

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

namespace comera::kernels {

typedef float FourFloats __attribute__((vector_size(16)));

// totals[i] = dot products of row i of q (kCount, width) with the four rows of
// `rows` (4, width); rows of both are so many floats apart.
template <int kCount>
COMERA_INLINE void DotFour(const float* rows, int64_t row_stride,
                           const float* q, int64_t q_stride, int64_t width,
                           FourFloats (&totals)[kCount]) {
  typedef float Eight __attribute__((vector_size(32)));
  // flat, so that it stays in registers
  Eight sums[4 * kCount] = {};
  int64_t c = 0;
  for (; c + 8 <= width; c += 8) {
    Eight row[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      std::memcpy(&row[j], rows + j * row_stride + c, sizeof(Eight));
    }
#pragma GCC unroll 16
    for (int n = 0; n < 4 * kCount; ++n) {
      Eight query;
      std::memcpy(&query, q + n / 4 * q_stride + c, sizeof(query));
      sums[n] += row[n % 4] * query;
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    // halves of each sum, then a lane of each sum side by side
    FourFloats half[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const Eight sum = sums[4 * i + j];
      half[j] = __builtin_shufflevector(sum, sum, 0, 1, 2, 3) +
                __builtin_shufflevector(sum, sum, 4, 5, 6, 7);
    }
    const FourFloats two01 =
        __builtin_shufflevector(half[0], half[1], 0, 4, 1, 5) +
        __builtin_shufflevector(half[0], half[1], 2, 6, 3, 7);
    const FourFloats two23 =
        __builtin_shufflevector(half[2], half[3], 0, 4, 1, 5) +
        __builtin_shufflevector(half[2], half[3], 2, 6, 3, 7);
    totals[i] = __builtin_shufflevector(two01, two23, 0, 1, 4, 5) +
                __builtin_shufflevector(two01, two23, 2, 3, 6, 7);
  }
  for (; c < width; ++c) {
    const FourFloats rest = {rows[c], rows[row_stride + c],
                             rows[2 * row_stride + c],
                             rows[3 * row_stride + c]};
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) totals[i] += rest * q[i * q_stride + c];
  }
}

// The dot product of two rows.
COMERA_INLINE float DotOne(const float* a, const float* b, int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}

// kRows rows of c, one or two, of n columns += factors (kRows, 4) times four
// rows of b. Rows of b and of c are so many floats apart.
template <int kRows>
COMERA_INLINE void AddFour(const float (&factors)[kRows][4], const float* b,
                           int64_t b_row, float* c, int64_t c_row, int64_t n) {
  const float* __restrict b0 = b;
  const float* __restrict b1 = b0 + b_row;
  const float* __restrict b2 = b1 + b_row;
  const float* __restrict b3 = b2 + b_row;
  float* __restrict to = c;
  float* __restrict next = c + (kRows - 1) * c_row;
  const float f0 = factors[0][0], f1 = factors[0][1], f2 = factors[0][2],
              f3 = factors[0][3];
  const float g0 = factors[kRows - 1][0], g1 = factors[kRows - 1][1],
              g2 = factors[kRows - 1][2], g3 = factors[kRows - 1][3];
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    to[j] = to[j] + f0 * b0[j] + f1 * b1[j] + f2 * b2[j] + f3 * b3[j];
    if (kRows == 2) {
      next[j] = next[j] + g0 * b0[j] + g1 * b1[j] + g2 * b2[j] + g3 * b3[j];
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_ROW_TILES_H_
