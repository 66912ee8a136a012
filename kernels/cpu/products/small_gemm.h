// A register-blocked matrix product for operands of a few thousand elements,
// where oneDNN's preparation costs more than the product.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_SMALL_GEMM_H_
#define COMERA_KERNELS_CPU_PRODUCTS_SMALL_GEMM_H_

#include <cstdint>

namespace comera::kernels {

// c (m, n) = alpha * a (m, k) b (k, n) + beta * c; beta = 0 does not read c.
// Element (i, p) of a lies at a[i * a_row + p * a_col]: a transposed `a` is a
// matter of strides. Rows of b and c are contiguous.
struct SmallGemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0;
  int64_t b_row = 0;
  int64_t c_row = 0;
};
void SmallGemm(const SmallGemmShape& shape, float alpha, const float* a,
               const float* b, float beta, float* c);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_SMALL_GEMM_H_
