// Starts a kernel; a failed launch becomes a Status that names it.
#ifndef COMERA_KERNELS_CUDA_LAUNCH_H_
#define COMERA_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/shared_memory.h"

namespace comera::kernels {

// A stream, and how kernels follow one another on it.
struct KernelStream {
  operator cudaStream_t() const { return handle; }

  cudaStream_t handle = nullptr;
  // Whether a kernel is set up while the one before it still runs
  // (programmatic dependent launch). Such a kernel must begin with
  // WaitForEarlierKernels of device/ptx.h, as all kernels here do.
  bool overlaps = false;
};

struct LaunchShape {
  dim3 grid;
  dim3 block;
  int64_t shared_bytes = 0;  // dynamic; see DynamicShared in device/ptx.h
  KernelStream stream = {};
};

// A grid without blocks is no error: nothing is to be done. More than 48 KiB of
// dynamic shared memory are asked for here; FailedPrecondition: the device has
// less.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(const char* name, const LaunchShape& shape,
                    void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) {
    return absl::OkStatus();
  }
  cudaError_t code = cudaSuccess;
  if (shape.shared_bytes > kUnaskedSharedBytes) {
    code = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shape.shared_bytes));
    if (code != cudaSuccess) {
      const absl::Status fits = CheckSharedBytes(name, shape.shared_bytes);
      if (!fits.ok()) {
        cudaGetLastError();  // the next launch need not fail
        return fits;
      }
    }
  }
  if (code == cudaSuccess) {
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
    config.stream = shape.stream;
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &overlap;
    config.numAttrs = shape.stream.overlaps ? 1 : 0;
    code = cudaLaunchKernelEx(&config, kernel,
                              std::forward<Arguments>(arguments)...);
  }
  if (code == cudaSuccess) return absl::OkStatus();
  return CudaStatus(code, absl::StrCat("launch of ", name));
}

// Blocks of `per_block` that cover `count`, at most `most`: a kernel then walks
// its elements in strides of the grid.
inline unsigned Blocks(int64_t count, int64_t per_block,
                       int64_t most = int64_t{1} << 30) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_LAUNCH_H_
