// Finds the block of threads that finishes last.
#ifndef COMERA_KERNELS_CUDA_DEVICE_LAST_BLOCK_H_
#define COMERA_KERNELS_CUDA_DEVICE_LAST_BLOCK_H_

#include <cuda_runtime.h>

namespace comera::kernels {

// Whether `count` blocks, of which each calls this once, have come here now:
// true in the last of them, which sees by __ldcg what the others wrote before.
// *arrived is 0 at first, and again once the last came. All threads of a block.
__device__ __forceinline__ bool IsLast(int* arrived, int count) {
  // What the whole block wrote is seen before its arrival.
  __threadfence();
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1) == count - 1;
    if (last) *arrived = 0;
  }
  if (!__syncthreads_or(last)) return false;
  __threadfence();
  return true;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_LAST_BLOCK_H_
