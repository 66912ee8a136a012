// How much shared memory a block of threads may have on a device.
#ifndef COMERA_KERNELS_CUDA_SHARED_MEMORY_H_
#define COMERA_KERNELS_CUDA_SHARED_MEMORY_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace comera::kernels {

// A launch has this much without asking for it.
inline constexpr int64_t kUnaskedSharedBytes = 48 * 1024;
// The least that a device of compute capability 8.0 or later gives a block:
// sm_86, sm_89 and sm_120 have just this. What is fixed when a kernel is
// compiled must fit into it; what is chosen at a launch asks the device.
inline constexpr int64_t kLeastSharedBytes = 99 * 1024;

// What `device` gives a block that asks for it; 0 if it does not tell.
inline int64_t SharedBytesPerBlock(int device) {
  int bytes = 0;
  const cudaError_t code = cudaDeviceGetAttribute(
      &bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return code == cudaSuccess ? bytes : 0;
}

// FailedPrecondition, with both numbers: a block of kernel `name` needs `bytes`
// and the calling thread's device gives it less.
inline absl::Status CheckSharedBytes(const char* name, int64_t bytes) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return absl::OkStatus();
  const int64_t most = SharedBytesPerBlock(device);
  if (bytes <= most || most == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "launch of ", name, ": a block of threads needs ", bytes,
      " bytes of shared memory, the device has ", most, " for it"));
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_SHARED_MEMORY_H_
