// Turns the error codes of CUDA and cuBLAS into a Status.
#include "kernels/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace comera::kernels {

absl::Status CudaStatus(cudaError_t code, absl::string_view expression) {
  if (code == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(
      expression, ": ", cudaGetErrorName(code), ", ", cudaGetErrorString(code));
  switch (code) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(message);
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status CublasStatus(cublasStatus_t code, absl::string_view expression) {
  if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message =
      absl::StrCat(expression, ": ", cublasGetStatusName(code), ", ",
                   cublasGetStatusString(code));
  return code == CUBLAS_STATUS_ALLOC_FAILED
             ? absl::ResourceExhaustedError(message)
             : absl::InternalError(message);
}

}  // namespace comera::kernels
