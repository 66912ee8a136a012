// A product of few rows with a large matrix, which is read once and as it lies:
// what a general GEMM spends on packing is then most of the time.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_THIN_GEMM_H_
#define COMERA_KERNELS_CPU_PRODUCTS_THIN_GEMM_H_

#include <cstdint>

namespace comera::kernels {

// c (m, n) = alpha * a (m, k) op(b) + beta * c; beta = 0 does not read c.
// op(b) is b (k, n) or the transpose of b (n, k). Element (i, p) of a lies at
// a[i * a_row + p * a_col], and a_col is 1 if b is transposed; rows of b and c
// are contiguous.
struct ThinGemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0;
  int64_t b_row = 0;
  int64_t c_row = 0;
};

// Whether it is faster than a general product. One
// row oneDNN multiplies as fast as memory allows, and short rows of b, which
// gain nothing from being read whole, it packs at little cost.
bool ThinGemmPays(bool transpose_b, int64_t m, int64_t n);

// Runs on at most `threads` threads.
void ThinGemm(const ThinGemmShape& shape, bool transpose_b, float alpha,
              const float* a, const float* b, float beta, float* c,
              int threads);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_THIN_GEMM_H_
