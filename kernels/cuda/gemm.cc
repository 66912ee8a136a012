// Multiplies matrices, by cuBLAS or by the kernels for tall and small ones.
#include <cublas_v2.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/scale_matrix.h"
#include "kernels/cuda/tall_product.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// A matrix of one row may come with any stride; cuBLAS wants at least the
// columns.
int64_t LeadingDimension(ConstMatrix m) {
  return std::max<int64_t>({m.stride, m.cols, 1});
}

}  // namespace

absl::Status CudaBackend::Gemm(bool transpose_a, bool transpose_b, float alpha,
                               ConstMatrix a, ConstMatrix b, float beta,
                               Matrix c) {
  const int64_t m = c.rows, n = c.cols;
  const int64_t k = transpose_a ? a.rows : a.cols;
  RETURN_IF_ERROR(CheckMatrix("Gemm", "c", c));
  RETURN_IF_ERROR(
      CheckMatrix("Gemm", "a", a, transpose_a ? k : m, transpose_a ? m : k));
  RETURN_IF_ERROR(
      CheckMatrix("Gemm", "b", b, transpose_b ? n : k, transpose_b ? k : n));
  if (m == 0 || n == 0) return absl::OkStatus();
  if (together_depth_ > 0) {
    if (SmallTasks::Takes(m, n, k)) {
      together_.AddGemm(transpose_a, transpose_b, alpha, a, b, beta, c);
    } else {
      together_.AddCall({a, b}, {c}, [=] {
        return Multiply(transpose_a, transpose_b, alpha, a, b, beta, c);
      });
    }
    return absl::OkStatus();
  }
  return Multiply(transpose_a, transpose_b, alpha, a, b, beta, c);
}

absl::Status CudaBackend::Multiply(bool transpose_a, bool transpose_b,
                                   float alpha, ConstMatrix a, ConstMatrix b,
                                   float beta, Matrix c) {
  const int64_t m = c.rows, n = c.cols;
  const int64_t k = transpose_a ? a.rows : a.cols;
  if (k == 0 || alpha == 0) return ScaleMatrix(stream_, beta, c);
  if (!transpose_a && !transpose_b && alpha == 1 && beta == 0 &&
      IsTallProduct(options_.precision, options_.device, a, b)) {
    return TallProduct(stream_, options_.precision, a, b, c);
  }
  if (IsSmallProduct(m, n, k)) {
    return LaunchSmallTasks(
        stream_, options_.precision, MemoryOfParts(),
        {ProductTask(transpose_a, transpose_b, alpha, a, b, beta, c)});
  }
  RETURN_IF_ERROR(StartCublas());
  // cuBLAS reads matrices by columns: c transposed is op(b)^T op(a)^T.
  RETURN_IF_CUBLAS_ERROR(cublasGemmEx_64(
      cublas_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
      transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, b.data,
      CUDA_R_32F, LeadingDimension(b), a.data, CUDA_R_32F, LeadingDimension(a),
      &beta, c.data, CUDA_R_32F, LeadingDimension(c),
      ProductOfFloats(options_.precision), CUBLAS_GEMM_DEFAULT));
  return absl::OkStatus();
}

}  // namespace comera::kernels
