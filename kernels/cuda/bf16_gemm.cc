// Products of matrices that lie in memory as bfloat16, by cuBLAS.
#include <cublas_v2.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/shape_check.h"

namespace comera::kernels {

absl::Status CudaBackend::MultiplyBf16(const char* name, bool transpose_a,
                                       bool transpose_b, ConstBf16Matrix a,
                                       ConstBf16Matrix b, float beta,
                                       cudaDataType type, void* c, int64_t m,
                                       int64_t n, int64_t stride,
                                       const ProductBatch& batch) {
  const int64_t k = transpose_a ? a.rows : a.cols;
  RETURN_IF_ERROR(
      CheckBf16(name, "a", a, transpose_a ? k : m, transpose_a ? m : k));
  RETURN_IF_ERROR(
      CheckBf16(name, "b", b, transpose_b ? n : k, transpose_b ? k : n));
  if (batch.count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", batch.count, " products"));
  }
  if (m == 0 || n == 0 || batch.count == 0) return absl::OkStatus();
  if (k == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the inner size is 0"));
  }
  const auto leading = [](const ConstBf16Matrix& x) {
    return std::max<int64_t>({x.stride, x.cols, 1});
  };
  RETURN_IF_ERROR(StartCublas());
  // cuBLAS reads matrices by columns: c transposed is op(b)^T op(a)^T.
  const float alpha = 1;
  const cublasOperation_t op_a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int64_t leading_c = std::max(stride, n);
  // What was measured of single products was measured with this call.
  if (batch.count == 1) {
    RETURN_IF_CUBLAS_ERROR(cublasGemmEx_64(
        cublas_, op_b, op_a, n, m, k, &alpha, b.data, CUDA_R_16BF, leading(b),
        a.data, CUDA_R_16BF, leading(a), &beta, c, type, leading_c,
        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return absl::OkStatus();
  }
  RETURN_IF_CUBLAS_ERROR(cublasGemmStridedBatchedEx_64(
      cublas_, op_b, op_a, n, m, k, &alpha, b.data, CUDA_R_16BF, leading(b),
      batch.b_step, a.data, CUDA_R_16BF, leading(a), batch.a_step, &beta, c,
      type, leading_c, batch.c_step, batch.count, CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT));
  return absl::OkStatus();
}

absl::Status CudaBackend::GemmBf16(bool transpose_a, bool transpose_b,
                                   ConstBf16Matrix a, ConstBf16Matrix b,
                                   float beta, Matrix c) {
  RETURN_IF_ERROR(CheckMatrix("GemmBf16", "c", c));
  return MultiplyBf16("GemmBf16", transpose_a, transpose_b, a, b, beta,
                      CUDA_R_32F, c.data, c.rows, c.cols, c.stride, {});
}

absl::Status CudaBackend::GemmToBf16(bool transpose_a, bool transpose_b,
                                     ConstBf16Matrix a, ConstBf16Matrix b,
                                     float beta, Bf16Matrix c,
                                     const ProductBatch& batch) {
  RETURN_IF_ERROR(CheckBf16("GemmToBf16", "c", c));
  return MultiplyBf16("GemmToBf16", transpose_a, transpose_b, a, b, beta,
                      CUDA_R_16BF, c.data, c.rows, c.cols, c.stride, batch);
}

}  // namespace comera::kernels
