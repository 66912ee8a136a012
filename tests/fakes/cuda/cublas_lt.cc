// Does cuBLASLt's products with their epilogues in plain loops.
#include <cublasLt.h>

#include <cstring>

#include "tests/fakes/cuda/fake_state.h"

struct cublasLtContext {
  cublasHandle_t cublas = nullptr;
};
struct FakeMatmulDesc {
  cublasComputeType_t compute;
  cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};
struct FakeMatrixLayout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld;
};
struct FakeMatmulPreference {
  uint64_t workspace_bytes = 0;
};

namespace {

// What an algorithm of this library begins with.
constexpr uint64_t kMagic = 0xC0BA5;

template <typename T>
cublasStatus_t Set(T* to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  cublasHandle_t cublas = nullptr;
  const cublasStatus_t status = cublasCreate(&cublas);
  if (status == CUBLAS_STATUS_SUCCESS) *handle = new cublasLtContext{cublas};
  return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  cublasDestroy(handle->cublas);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute,
                                        cudaDataType_t) {
  *description = new FakeMatmulDesc{compute};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(&description->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(&description->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(&description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(&description->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  *layout = new FakeMatrixLayout{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(
    cublasLtMatmulPreference_t* preference) {
  *preference = new FakeMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return Set(&preference->workspace_bytes, value, bytes);
  }
  uint32_t alignment = 0;
  return Set(&alignment, value, bytes);
}

// A product with a thin side has no algorithm here, as happens with the real
// library for some shapes.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t, int wanted,
    cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (a->rows < 4 || a->cols < 4) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = 1;
  results[0] = {};
  results[0].algo.data[0] = kMagic;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  using comera::fake_cuda::KindOf;
  using comera::fake_cuda::MemoryKind;
  const bool turn_a = description->transa != CUBLAS_OP_N;
  const uint64_t k = turn_a ? a_layout->rows : a_layout->cols;
  const uint64_t m = turn_a ? a_layout->cols : a_layout->rows;
  const bool turn_b = description->transb != CUBLAS_OP_N;
  if (algo == nullptr || algo->data[0] != kMagic || c != d ||
      m != d_layout->rows || (turn_b ? b_layout->cols : b_layout->rows) != k ||
      (turn_b ? b_layout->rows : b_layout->cols) != d_layout->cols ||
      KindOf(workspace, workspace_bytes) != MemoryKind::kDevice) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  cublasSetStream(handle->cublas, stream);
  const cublasStatus_t status = cublasGemmEx_64(
      handle->cublas, description->transa, description->transb,
      static_cast<int64_t>(m), static_cast<int64_t>(d_layout->cols),
      static_cast<int64_t>(k), alpha, a, a_layout->type, a_layout->ld, b,
      b_layout->type, b_layout->ld, beta, d, d_layout->type, d_layout->ld,
      description->compute, CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS ||
      description->epilogue == CUBLASLT_EPILOGUE_DEFAULT) {
    return status;
  }
  const float* const bias = description->bias;
  const FakeMatrixLayout shape = *d_layout;
  const cudaError_t code = comera::fake_cuda::Enqueue(stream, [=] {
    for (uint64_t column = 0; column < shape.cols; ++column) {
      float* const to = static_cast<float*>(d) + column * shape.ld;
      for (uint64_t row = 0; row < shape.rows; ++row) to[row] += bias[row];
    }
    return cudaSuccess;
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                             : CUBLAS_STATUS_EXECUTION_FAILED;
}
