// Formula: a stable sort of small whole numbers with their places, eight bits
// at a time, from the lowest. No step depends on the order in which blocks run.
// Shapes: keys, places (n); counts (256 digits, blocks).
// Threads: a block takes 1024 numbers, a warp 128 of them one after the other,
// by 32.
#ifndef COMERA_KERNELS_CUDA_DEVICE_RADIX_SORT_H_
#define COMERA_KERNELS_CUDA_DEVICE_RADIX_SORT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"

namespace comera::kernels {

inline constexpr int kDigits = 256;
inline constexpr int kSortThreads = 256;
inline constexpr int kSortWarps = kSortThreads / 32;
// Numbers of a block; a warp takes those one after the other, by 32.
inline constexpr int kSortTile = 1024;
inline constexpr int kWarpTile = kSortTile / kSortWarps;

struct SortList {
  int32_t* keys;
  int32_t* places;
};

__device__ __forceinline__ int DigitOf(int32_t key, int shift) {
  return static_cast<int>((static_cast<uint32_t>(key) >> shift) &
                          (kDigits - 1));
}

// counts[digit, block] = how many numbers of the block's tile have the digit.
static __global__ void __launch_bounds__(kSortThreads)
    CountDigitsKernel(const int32_t* keys, int n, int shift, int* counts) {
  WaitForEarlierKernels();
  __shared__ int of_digit[kDigits];
  of_digit[threadIdx.x] = 0;
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * kSortTile;
  for (int i = threadIdx.x; i < kSortTile && first + i < n; i += kSortThreads) {
    atomicAdd(&of_digit[DigitOf(keys[first + i], shift)], 1);
  }
  __syncthreads();
  counts[threadIdx.x * gridDim.x + blockIdx.x] = of_digit[threadIdx.x];
}

// counts[i] becomes the sum of all before it; one block.
static __global__ void __launch_bounds__(1024)
    SumBeforeKernel(int* counts, int n) {
  WaitForEarlierKernels();
  __shared__ int warp_sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int before = 0;
  for (int first = 0; first < n; first += 1024) {
    const int i = first + static_cast<int>(threadIdx.x);
    const int own = i < n ? counts[i] : 0;
    int sum = own;  // sum over the lanes up to this one
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int left = __shfl_up_sync(kFullWarp, sum, step);
      if (lane >= step) sum += left;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    int all = 0;
    for (int w = 0; w < 32; ++w) {
      if (w < warp) sum += warp_sums[w];
      all += warp_sums[w];
    }
    if (i < n) counts[i] = before + sum - own;
    before += all;
    __syncthreads();
  }
}

// Moves every number behind those with smaller digits, and those with the same
// one that come before it. Without `from.places` the places are 0, 1, ...
static __global__ void __launch_bounds__(kSortThreads)
    MoveByDigitKernel(SortList from, int n, int shift, const int* before,
                      SortList to) {
  WaitForEarlierKernels();
  __shared__ int next[kSortWarps][kDigits];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first = static_cast<int>(blockIdx.x) * kSortTile + warp * kWarpTile;
  // count the digits of each warp
  for (int w = 0; w < kSortWarps; ++w) next[w][threadIdx.x] = 0;
  __syncthreads();
  for (int i = lane; i < kWarpTile && first + i < n; i += 32) {
    atomicAdd(&next[warp][DigitOf(from.keys[first + i], shift)], 1);
  }
  __syncthreads();
  // where each warp puts each digit
  int at = before[threadIdx.x * gridDim.x + blockIdx.x];
  for (int w = 0; w < kSortWarps; ++w) {
    const int count = next[w][threadIdx.x];
    next[w][threadIdx.x] = at;
    at += count;
  }
  __syncthreads();
  // move
  for (int i = 0; i < kWarpTile; i += 32) {
    const int index = first + i + lane;
    const bool there = index < n;
    const int32_t key = there ? from.keys[index] : 0;
    const int digit = DigitOf(key, shift);
    // Lanes with a number of the same digit.
    unsigned peers = __ballot_sync(kFullWarp, there);
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = (digit >> bit & 1) != 0;
      const unsigned with = __ballot_sync(kFullWarp, set);
      peers &= set ? with : ~with;
    }
    const int rank = __popc(peers & ((1u << lane) - 1));
    if (there) {
      const int place = next[warp][digit] + rank;
      to.keys[place] = key;
      to.places[place] = from.places == nullptr ? index : from.places[index];
    }
    __syncwarp();
    if (there && rank == 0) next[warp][digit] += __popc(peers);
    __syncwarp();
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_RADIX_SORT_H_
