// Products of bfloat16 operands with float32 sums.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_BF16_GEMM_H_
#define COMERA_KERNELS_CPU_PRODUCTS_BF16_GEMM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cpu/products/matmul_primitives.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Matrix products whose operands are rounded to bfloat16 (nearest even) on the
// way in, with sums and results in float32.
//
// The buffers grow to the largest product. Once all shapes have occurred,
// nothing is allocated (see MatmulPrimitives). Not thread-safe; uses the
// threads that the caller has set.
class Bf16Gemm {
 public:
  // Whether the processor multiplies bfloat16. Otherwise oneDNN's fallback is
  // slower than float32.
  static bool Supported();
  // Whether the product gains by it: each operand must be used often enough to
  // pay for its conversion.
  static bool Pays(int64_t m, int64_t n, int64_t k);

  // c (m, n) = op(a) op(b) + beta * c for shapes that fit, none of them 0.
  absl::Status Run(bool transpose_a, bool transpose_b, ConstMatrix a,
                   ConstMatrix b, float beta, Matrix c);

 private:
  MatmulPrimitives primitives_;
  MatmulPrimitives::Buffer a_, b_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_BF16_GEMM_H_
