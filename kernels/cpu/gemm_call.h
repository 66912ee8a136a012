// One matrix product on checked operands, from any thread.
#ifndef COMERA_KERNELS_CPU_GEMM_CALL_H_
#define COMERA_KERNELS_CPU_GEMM_CALL_H_

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// c = alpha * op(a) op(b) + beta * c for shapes that fit. Inside a parallel
// region the product runs on the calling thread alone.
absl::Status GemmCall(bool transpose_a, bool transpose_b, float alpha,
                      ConstMatrix a, ConstMatrix b, float beta, Matrix c);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_GEMM_CALL_H_
