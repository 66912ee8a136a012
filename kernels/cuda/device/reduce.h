// Sums and maxima over a warp or a block, the same in every lane and every run.
#ifndef COMERA_KERNELS_CUDA_DEVICE_REDUCE_H_
#define COMERA_KERNELS_CUDA_DEVICE_REDUCE_H_

#include <cuda_runtime.h>

namespace comera::kernels {

inline constexpr unsigned kFullWarp = 0xffffffffu;

template <typename T>
__device__ __forceinline__ T WarpSum(T x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    x += __shfl_xor_sync(kFullWarp, x, lanes);
  }
  return x;
}

__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, lanes));
  }
  return x;
}

// The sum over a block of one dimension, of whole warps; all threads call it.
template <typename T>
__device__ __forceinline__ T BlockSum(T x) {
  __shared__ T sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  x = WarpSum(x);
  __syncthreads();  // the sums of a call before may still be read
  if (lane == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  return WarpSum(lane < warps ? sums[lane] : T{0});
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_REDUCE_H_
