// Return codes of the CUDA libraries as absl::Status, made at the call.
#ifndef COMERA_KERNELS_CUDA_CUDA_STATUS_H_
#define COMERA_KERNELS_CUDA_CUDA_STATUS_H_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace comera::kernels {

// OK, or an error that names `expression`. ResourceExhausted: out of device
// memory; FailedPrecondition: no usable device or driver; Internal: all else.
// Most CUDA errors are sticky: every later call of the process returns them.
absl::Status CudaStatus(cudaError_t code, absl::string_view expression);
absl::Status CublasStatus(cublasStatus_t code, absl::string_view expression);

}  // namespace comera::kernels

#define RETURN_IF_CUDA_ERROR(expression)                               \
  do {                                                                 \
    if (const cudaError_t comera_code_ = (expression);                 \
        comera_code_ != cudaSuccess) {                                 \
      return ::comera::kernels::CudaStatus(comera_code_, #expression); \
    }                                                                  \
  } while (false)

#define RETURN_IF_CUBLAS_ERROR(expression)                               \
  do {                                                                   \
    if (const cublasStatus_t comera_code_ = (expression);                \
        comera_code_ != CUBLAS_STATUS_SUCCESS) {                         \
      return ::comera::kernels::CublasStatus(comera_code_, #expression); \
    }                                                                    \
  } while (false)

#endif  // COMERA_KERNELS_CUDA_CUDA_STATUS_H_
