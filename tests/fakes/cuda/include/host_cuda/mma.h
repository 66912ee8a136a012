// The tensor-core products of a warp.
#ifndef COMERA_TESTS_FAKES_CUDA_HOST_CUDA_MMA_H_
#define COMERA_TESTS_FAKES_CUDA_HOST_CUDA_MMA_H_

#include <cstdint>

namespace comera::fake_cuda {

// What a lane holds of the three matrices; see kernels/cuda/device/ptx.h.
struct MmaRequest {
  float* d;           // 4
  const uint32_t* a;  // 4
  const uint32_t* b;  // 2
};

// Each is the Resolve of a WarpCollective of MmaRequest. Sums are in float, in
// order of the inner dimension.
void ResolveMmaTf32(void* const (&lanes)[32]);
void ResolveMmaBf16(void* const (&lanes)[32]);

}  // namespace comera::fake_cuda

#endif  // COMERA_TESTS_FAKES_CUDA_HOST_CUDA_MMA_H_
