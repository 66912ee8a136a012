// cuBLAS on the processor: what kernels/cuda needs of <cublas_v2.h>. Matrices
// are column-major. Sums are in float, in order of the inner dimension;
// operands are rounded as the compute type says. Recorded while the handle's
// stream captures.
#ifndef COMERA_TESTS_FAKES_CUDA_CUBLAS_V2_H_
#define COMERA_TESTS_FAKES_CUDA_CUBLAS_V2_H_

#include <cuda_runtime.h>

#include <cstdint>

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum cublasPointerMode_t {
  CUBLAS_POINTER_MODE_HOST = 0,
  CUBLAS_POINTER_MODE_DEVICE = 1,
};
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
};
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasGemmAlgo_t {
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
typedef cudaDataType_t cudaDataType;
typedef struct cublasContext* cublasHandle_t;

const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace,
                                  size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle,
                                    cublasPointerMode_t mode);

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k,
                           const float* alpha, const float* a, int lda,
                           const float* b, int ldb, const float* beta, float* c,
                           int ldc);
cublasStatus_t cublasSgemm_64(cublasHandle_t handle, cublasOperation_t transa,
                              cublasOperation_t transb, int64_t m, int64_t n,
                              int64_t k, const float* alpha, const float* a,
                              int64_t lda, const float* b, int64_t ldb,
                              const float* beta, float* c, int64_t ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k,
                            const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta,
                            void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa,
                               cublasOperation_t transb, int64_t m, int64_t n,
                               int64_t k, const void* alpha, const void* a,
                               cudaDataType a_type, int64_t lda, const void* b,
                               cudaDataType b_type, int64_t ldb,
                               const void* beta, void* c, cudaDataType c_type,
                               int64_t ldc, cublasComputeType_t compute,
                               cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void* alpha, const void* a, cudaDataType a_type,
    int lda, long long stride_a, const void* b, cudaDataType b_type, int ldb,
    long long stride_b, const void* beta, void* c, cudaDataType c_type, int ldc,
    long long stride_c, int batch, cublasComputeType_t compute,
    cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
    cudaDataType a_type, int64_t lda, long long stride_a, const void* b,
    cudaDataType b_type, int64_t ldb, long long stride_b, const void* beta,
    void* c, cudaDataType c_type, int64_t ldc, long long stride_c,
    int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t algo);

#endif  // COMERA_TESTS_FAKES_CUDA_CUBLAS_V2_H_
