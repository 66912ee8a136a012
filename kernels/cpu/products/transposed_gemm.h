// Products a b^T of few rows.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_TRANSPOSED_GEMM_H_
#define COMERA_KERNELS_CPU_PRODUCTS_TRANSPOSED_GEMM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cpu/products/matmul_primitives.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// c = a b^T + beta * c in float32, by oneDNN's BRGEMM kernels. dnnl_sgemm packs
// b^T so slowly that the packing takes as long as the product, unless many rows
// of `a` use what is packed. Not thread-safe; uses the threads that the caller
// has set.
class TransposedGemm {
 public:
  // Whether c (m, n), with k terms in each sum, gains by it on this processor.
  static bool Pays(int64_t m, int64_t n, int64_t k);

  // Returns false and does nothing if oneDNN has no BRGEMM kernel for these
  // operands.
  absl::StatusOr<bool> Run(ConstMatrix a, ConstMatrix b, float beta, Matrix c);

 private:
  MatmulPrimitives primitives_;
  MatmulPrimitives::Buffer c_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_TRANSPOSED_GEMM_H_
