// Products whose result stays in registers, for kernels that do something with
// it before it is stored.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_REGISTER_PRODUCT_H_
#define COMERA_KERNELS_CPU_PRODUCTS_REGISTER_PRODUCT_H_

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"

namespace comera::kernels {

template <int kLanes>
struct RegisterOf {
  typedef float Type __attribute__((vector_size(kLanes * sizeof(float))));
};

// kRows x (kVectors * kLanes) sums, row by row. Every loop over them is one
// flat loop of constant length: nested ones the compiler unrolls too late to
// keep the array in registers.
template <int kRows, int kVectors, int kLanes>
struct RegisterTile {
  using V = typename RegisterOf<kLanes>::Type;
  static constexpr int kCount = kRows * kVectors;
  V sum[kCount];

  COMERA_INLINE void Clear() {
#pragma GCC unroll 32
    for (int n = 0; n < kCount; ++n) sum[n] = V{};
  }

  // += a b over k terms: element (i, p) of a lies at a[i * a_row + p * a_col],
  // row p of b at b + p * b_row.
  COMERA_INLINE void AddProduct(const float* a, int64_t a_row, int64_t a_col,
                                const float* b, int64_t b_row, int64_t k) {
    for (int64_t p = 0; p < k; ++p) {
      V row[kVectors];
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        std::memcpy(&row[j], b + j * kLanes, sizeof(V));
      }
#pragma GCC unroll 32
      for (int n = 0; n < kCount; ++n) {
        sum[n] += row[n % kVectors] * a[n / kVectors * a_row];
      }
      a += a_col;
      b += b_row;
    }
  }

  // Row i from or to c + i * c_row.
  COMERA_INLINE void Load(const float* c, int64_t c_row) {
#pragma GCC unroll 32
    for (int n = 0; n < kCount; ++n) {
      std::memcpy(&sum[n], c + n / kVectors * c_row + n % kVectors * kLanes,
                  sizeof(V));
    }
  }
  // Element by element.
  COMERA_INLINE void Multiply(const float* c, int64_t c_row) {
#pragma GCC unroll 32
    for (int n = 0; n < kCount; ++n) {
      V other;
      std::memcpy(&other, c + n / kVectors * c_row + n % kVectors * kLanes,
                  sizeof(V));
      sum[n] *= other;
    }
  }
  COMERA_INLINE void Store(float* c, int64_t c_row) const {
#pragma GCC unroll 32
    for (int n = 0; n < kCount; ++n) {
      std::memcpy(c + n / kVectors * c_row + n % kVectors * kLanes, &sum[n],
                  sizeof(V));
    }
  }
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_REGISTER_PRODUCT_H_
