// Numbers between float32 and bfloat16, for what travels in fewer bytes.
#ifndef COMERA_KERNELS_CUDA_BF16_CONVERT_H_
#define COMERA_KERNELS_CUDA_BF16_CONVERT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

namespace comera::kernels {

// Both are enqueued on `stream`, with device memory that does not overlap;
// the address `bf16` is a multiple of 16 bytes. They round to the nearest
// bfloat16, ties to even.
absl::Status FloatsToBf16(int64_t count, const float* floats, void* bf16,
                          cudaStream_t stream);
absl::Status Bf16ToFloats(int64_t count, const void* bf16, float* floats,
                          cudaStream_t stream);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_BF16_CONVERT_H_
