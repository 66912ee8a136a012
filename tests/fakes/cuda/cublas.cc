// Does cuBLAS's products in plain loops, with the operands' rounding.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_ptx_on_host.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/fakes/cuda/fake_state.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

enum class Rounding { kNone, kTf32, kBf16 };

struct Operand {
  const void* data;
  cudaDataType type;
  bool transposed;
  int64_t ld;
  long long stride;  // between matrices of the batch
};

struct GemmCall {
  int64_t m, n, k, batch;
  Operand a, b;
  void* c;
  cudaDataType c_type;
  int64_t ldc;
  long long stride_c;
  Rounding rounding;
  bool device_scalars;
  float alpha, beta;  // values on the host
  const float *device_alpha, *device_beta;
};

float Load(const void* data, cudaDataType type, int64_t i) {
  return type == CUDA_R_16BF
             ? static_cast<float>(static_cast<const __nv_bfloat16*>(data)[i])
             : static_cast<const float*>(data)[i];
}

float Rounded(float x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kTf32:
      return __uint_as_float(comera::kernels::ToTf32(x));
    case Rounding::kBf16:
      return __nv_bfloat16(x);
    case Rounding::kNone:
      break;
  }
  return x;
}

// op(x), by columns.
std::vector<float> Pack(const Operand& x, int64_t matrix, int64_t rows,
                        int64_t columns, Rounding rounding) {
  std::vector<float> packed(static_cast<size_t>(rows * columns));
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at =
          x.transposed ? row * x.ld + column : column * x.ld + row;
      packed[column * rows + row] =
          Rounded(Load(x.data, x.type, matrix * x.stride + at), rounding);
    }
  }
  return packed;
}

void Multiply(const GemmCall& call, int64_t matrix) {
  const float alpha = call.device_scalars ? *call.device_alpha : call.alpha;
  const float beta = call.device_scalars ? *call.device_beta : call.beta;
  const std::vector<float> a =
      Pack(call.a, matrix, call.m, call.k, call.rounding);
  const std::vector<float> b =
      Pack(call.b, matrix, call.k, call.n, call.rounding);
  std::vector<float> sum(static_cast<size_t>(call.m));
  for (int64_t j = 0; j < call.n; ++j) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t k = 0; k < call.k; ++k) {
      const float x = b[j * call.k + k];
      const float* const column = a.data() + k * call.m;
      float* const to = sum.data();
      for (int64_t i = 0; i < call.m; ++i) to[i] += column[i] * x;
    }
    for (int64_t i = 0; i < call.m; ++i) {
      const int64_t at = matrix * call.stride_c + j * call.ldc + i;
      float value = alpha * sum[i];
      if (beta != 0) value += beta * Load(call.c, call.c_type, at);
      if (call.c_type == CUDA_R_16BF) {
        static_cast<__nv_bfloat16*>(call.c)[at] = __nv_bfloat16(value);
      } else {
        static_cast<float*>(call.c)[at] = value;
      }
    }
  }
}

// Whether vector loads of 16 bytes read every column of `rows` elements, and
// nothing else.
bool Aligned(const void* data, cudaDataType type, int64_t ld, int64_t rows) {
  const int64_t size = type == CUDA_R_16BF ? 2 : 4;
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && ld * size % 16 == 0 &&
         rows * size % 16 == 0;
}

bool Known(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF;
}

cublasStatus_t Status(cudaError_t code) {
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
    cudaDataType a_type, int64_t lda, long long stride_a, const void* b,
    cudaDataType b_type, int64_t ldb, long long stride_b, const void* beta,
    void* c, cudaDataType c_type, int64_t ldc, long long stride_c,
    int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool turn_a = transa != CUBLAS_OP_N, turn_b = transb != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || alpha == nullptr ||
      beta == nullptr || lda < std::max<int64_t>(1, turn_a ? k : m) ||
      ldb < std::max<int64_t>(1, turn_b ? n : k) ||
      ldc < std::max<int64_t>(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!Known(a_type) || a_type != b_type || !Known(c_type) ||
      (a_type == CUDA_R_32F && c_type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  GemmCall call = {m,
                   n,
                   k,
                   batch,
                   {a, a_type, turn_a, lda, stride_a},
                   {b, b_type, turn_b, ldb, stride_b},
                   c,
                   c_type,
                   ldc,
                   stride_c,
                   Rounding::kNone,
                   handle->pointers == CUBLAS_POINTER_MODE_DEVICE,
                   0,
                   0,
                   static_cast<const float*>(alpha),
                   static_cast<const float*>(beta)};
  if (!call.device_scalars) {
    call.alpha = *call.device_alpha;
    call.beta = *call.device_beta;
  }
  switch (compute) {
    case CUBLAS_COMPUTE_32F:
      if (handle->math == CUBLAS_TF32_TENSOR_OP_MATH) {
        call.rounding = Rounding::kTf32;
      }
      break;
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      break;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      call.rounding = Rounding::kTf32;
      break;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      call.rounding = Rounding::kBf16;
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (comera::fake_cuda::StickyError() != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (comera::fake_cuda::CountLaunch(/*overlaps=*/true) != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  comera::fake_cuda::NotedWork noted;
  noted.kind = comera::fake_cuda::NotedWork::kProduct;
  noted.m = m;
  noted.n = n;
  noted.k = k;
  noted.batch = batch;
  noted.transpose_a = turn_a;
  noted.transpose_b = turn_b;
  noted.misaligned = !Aligned(a, a_type, lda, turn_a ? k : m) ||
                     !Aligned(b, b_type, ldb, turn_b ? n : k) ||
                     !Aligned(c, c_type, ldc, m);
  if (comera::fake_cuda::Note(noted)) return CUBLAS_STATUS_SUCCESS;
  return Status(comera::fake_cuda::Enqueue(handle->stream, [call] {
    for (int64_t i = 0; i < call.batch; ++i) Multiply(call, i);
    return cudaSuccess;
  }));
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void* alpha, const void* a, cudaDataType a_type,
    int lda, long long stride_a, const void* b, cudaDataType b_type, int ldb,
    long long stride_b, const void* beta, void* c, cudaDataType c_type, int ldc,
    long long stride_c, int batch, cublasComputeType_t compute,
    cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx_64(handle, transa, transb, m, n, k, alpha,
                                       a, a_type, lda, stride_a, b, b_type, ldb,
                                       stride_b, beta, c, c_type, ldc, stride_c,
                                       batch, compute, algo);
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa,
                               cublasOperation_t transb, int64_t m, int64_t n,
                               int64_t k, const void* alpha, const void* a,
                               cudaDataType a_type, int64_t lda, const void* b,
                               cudaDataType b_type, int64_t ldb,
                               const void* beta, void* c, cudaDataType c_type,
                               int64_t ldc, cublasComputeType_t compute,
                               cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx_64(
      handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb,
      0, beta, c, c_type, ldc, 0, 1, compute, algo);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k,
                            const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta,
                            void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute,
                            cublasGemmAlgo_t algo) {
  return cublasGemmEx_64(handle, transa, transb, m, n, k, alpha, a, a_type, lda,
                         b, b_type, ldb, beta, c, c_type, ldc, compute, algo);
}

cublasStatus_t cublasSgemm_64(cublasHandle_t handle, cublasOperation_t transa,
                              cublasOperation_t transb, int64_t m, int64_t n,
                              int64_t k, const float* alpha, const float* a,
                              int64_t lda, const float* b, int64_t ldb,
                              const float* beta, float* c, int64_t ldc) {
  return cublasGemmEx_64(handle, transa, transb, m, n, k, alpha, a, CUDA_R_32F,
                         lda, b, CUDA_R_32F, ldb, beta, c, CUDA_R_32F, ldc,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k,
                           const float* alpha, const float* a, int lda,
                           const float* b, int ldb, const float* beta, float* c,
                           int ldc) {
  return cublasSgemm_64(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb,
                        beta, c, ldc);
}

// --- handles ----------------------------------------------------------------

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  using comera::fake_cuda::StickyError;
  using comera::fake_cuda::UnsafeDuringCapture;
  if (StickyError() != cudaSuccess || UnsafeDuringCapture() != cudaSuccess ||
      comera::fake_cuda::CurrentDevice().count == 0) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void* workspace,
                                  size_t bytes) {
  using comera::fake_cuda::KindOf;
  using comera::fake_cuda::MemoryKind;
  return bytes == 0 || KindOf(workspace, bytes) == MemoryKind::kDevice
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle,
                                    cublasPointerMode_t mode) {
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

#define COMERA_STATUSES(X)                                                   \
  X(CUBLAS_STATUS_SUCCESS, "success")                                        \
  X(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")        \
  X(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")            \
  X(CUBLAS_STATUS_INVALID_VALUE, "an invalid value was used as a parameter") \
  X(CUBLAS_STATUS_ARCH_MISMATCH,                                             \
    "an absent device architectural feature is required")                    \
  X(CUBLAS_STATUS_EXECUTION_FAILED, "the GPU program failed to execute")     \
  X(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")            \
  X(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality is not supported")

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
#define COMERA_NAME(name, text) \
  case name:                    \
    return #name;
    COMERA_STATUSES(COMERA_NAME)
#undef COMERA_NAME
  }
  return "unknown status";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
#define COMERA_TEXT(name, text) \
  case name:                    \
    return text;
    COMERA_STATUSES(COMERA_TEXT)
#undef COMERA_TEXT
  }
  return "unknown status";
}
