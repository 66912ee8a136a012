// The number of multiprocessors by which grids are sized.
//
// A kernel that walks its elements in strides of the grid is launched with some
// blocks per multiprocessor. Where each result is computed by itself, the grid
// changes nothing but the speed, and is sized by Multiprocessors() of the
// device. Where blocks leave partial sums, the grid decides in which order
// numbers are added, and is sized by the constant kSumMultiprocessors, so that
// sums have the same bits on devices with any number of them.
#ifndef COMERA_KERNELS_CUDA_DEVICE_GRID_H_
#define COMERA_KERNELS_CUDA_DEVICE_GRID_H_

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace comera::kernels {

// The multiprocessors of an H100 SXM and of an H200.
inline constexpr int64_t kSumMultiprocessors = 132;

// The multiprocessors of the calling thread's device, which is asked once. An
// error is left to the launch that follows.
inline int64_t Multiprocessors() {
  constexpr int kMostDevices = 64;
  static std::atomic<int> known[kMostDevices] = {};
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMostDevices) {
    return kSumMultiprocessors;
  }
  count = known[device].load(std::memory_order_relaxed);
  if (count > 0) return count;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) !=
          cudaSuccess ||
      count <= 0) {
    return kSumMultiprocessors;
  }
  known[device].store(count, std::memory_order_relaxed);
  return count;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_GRID_H_
