// The smallest kernel, which shows that device code of this build runs here.
#ifndef COMERA_TESTS_GPU_SCALE_ADD_H_
#define COMERA_TESTS_GPU_SCALE_ADD_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

namespace comera::kernels {

// Computes y += a x over `count` floats of device memory.
absl::Status ScaleAdd(int64_t count, float a, const float* x, float* y,
                      cudaStream_t stream);

}  // namespace comera::kernels

#endif  // COMERA_TESTS_GPU_SCALE_ADD_H_
