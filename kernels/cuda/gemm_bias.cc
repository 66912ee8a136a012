// Products with the bias added in the epilogue. (cuBLASLt's GELU epilogues
// approximate by tanh; the model's GELU is exact, so it stays a kernel.)
#include <cublasLt.h>

#include <cstdint>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// The alignment of every operand that the fast algorithms' vector loads need.
constexpr uint32_t kAlignment = 16;

bool Aligned(const float* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % kAlignment == 0 &&
         stride % int64_t{kAlignment / sizeof(float)} == 0;
}

// Whether cuBLASLt takes it. Its leading dimension is at least the columns, of
// which a matrix of one row may fall short.
bool Suitable(ConstMatrix m) {
  return m.stride >= m.cols && Aligned(m.data, m.stride);
}

// Owners of cuBLASLt's descriptors.
struct Product {
  ~Product() {
    if (description != nullptr) cublasLtMatmulDescDestroy(description);
    for (cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
};
struct Preference {
  ~Preference() {
    if (handle != nullptr) cublasLtMatmulPreferenceDestroy(handle);
  }
  cublasLtMatmulPreference_t handle = nullptr;
};

// Row-major c = a b is column-major c^T = b^T a^T, so that b comes first and
// the bias runs along the rows of c^T.
absl::Status Describe(CudaPrecision precision, bool transpose_b, ConstMatrix a,
                      ConstMatrix b, const float* bias, Matrix c,
                      Product* product) {
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescCreate(
      &product->description, ProductOfFloats(precision), CUDA_R_32F));
  const cublasOperation_t operation = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescSetAttribute(
      product->description, CUBLASLT_MATMUL_DESC_TRANSA, &operation,
      sizeof(operation)));
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescSetAttribute(
      product->description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
      sizeof(epilogue)));
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescSetAttribute(
      product->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
      sizeof(bias)));
  RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutCreate(&product->b, CUDA_R_32F,
                                                    b.cols, b.rows, b.stride));
  RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutCreate(&product->a, CUDA_R_32F,
                                                    a.cols, a.rows, a.stride));
  RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutCreate(&product->c, CUDA_R_32F,
                                                    c.cols, c.rows, c.stride));
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaBackend::GemmBias(bool transpose_b, ConstMatrix a,
                                   ConstMatrix b, ConstVector bias, Matrix c) {
  constexpr char kOp[] = "GemmBias";
  RETURN_IF_ERROR(CheckMatrix(kOp, "a", a));
  RETURN_IF_ERROR(CheckMatrix(kOp, "b", b, transpose_b ? c.cols : a.cols,
                              transpose_b ? a.cols : c.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "c", c, a.rows, c.cols));
  RETURN_IF_ERROR(CheckVector(kOp, "bias", bias, c.cols));
  if (c.rows == 0 || c.cols == 0) return absl::OkStatus();
  if (a.cols > 0 && IsSmallProduct(c.rows, c.cols, a.cols)) {
    SmallTask task = ProductTask(false, transpose_b, 1, a, b, 0, c);
    task.x = bias.data;
    return LaunchSmallTasks(stream_, options_.precision, MemoryOfParts(),
                            {task});
  }
  if (a.cols == 0 || !Suitable(a) || !Suitable(b) || !Suitable(c) ||
      !Aligned(bias.data, 0)) {
    return Backend::GemmBias(transpose_b, a, b, bias, c);
  }
  RETURN_IF_ERROR(StartCublas());
  Product product;
  RETURN_IF_ERROR(
      Describe(options_.precision, transpose_b, a, b, bias.data, c, &product));
  const ProductShape shape = {transpose_b, c.rows,   c.cols,  a.cols,
                              a.stride,    b.stride, c.stride};
  auto found = algorithms_.find(shape);
  if (found == algorithms_.end()) {
    Preference preference;
    RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceCreate(&preference.handle));
    const uint64_t bytes = kCublasBytes;
    RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceSetAttribute(
        preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
        sizeof(bytes)));
    for (cublasLtMatmulPreferenceAttributes_t operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceSetAttribute(
          preference.handle, operand, &kAlignment, sizeof(kAlignment)));
    }
    cublasLtMatmulHeuristicResult_t best = {};
    int count = 0;
    const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(
        cublas_lt_, product.description, product.b, product.a, product.c,
        product.c, preference.handle, 1, &best, &count);
    // Not every shape has an algorithm with an epilogue.
    if (code == CUBLAS_STATUS_NOT_SUPPORTED || count == 0) {
      return Backend::GemmBias(transpose_b, a, b, bias, c);
    }
    RETURN_IF_CUBLAS_ERROR(code);
    found = algorithms_.emplace(shape, best.algo).first;
  }
  const float one = 1, zero = 0;
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmul(
      cublas_lt_, product.description, &one, b.data, product.b, a.data,
      product.a, &zero, c.data, product.c, c.data, product.c, &found->second,
      cublas_workspace_, kCublasBytes, stream_));
  return absl::OkStatus();
}

}  // namespace comera::kernels
