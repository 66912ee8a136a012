// Formula: the factors C_h and E_h of rank-space attention, or their
// transposes, times a scale.
// Shapes: from (heads * rows, cols); packed, fragment by fragment, (heads,
// width, width), filled up with zeros, as right operands of the tensor cores.
// Threads: one packs a lane's part of a fragment, so that later a warp reads a
// fragment with one access per lane.
#ifndef COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FACTORS_H_
#define COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FACTORS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/attention_tile.h"
#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Lanes' parts of the fragments of one head.
template <int kWidth>
inline constexpr int kFactorParts = kWidth / 16 * (kWidth / 8) * 32;

// Bytes of a factor for all heads, in any precision.
inline int64_t FactorBytes(int64_t heads, int64_t width) {
  return heads * width * width * static_cast<int64_t>(sizeof(float));
}

// What is packed: `rows` rows of `from` per head, or their transpose, times
// `scale`.
struct FactorPacking {
  ConstMatrix from;
  int rows = 0;
  bool transpose = false;
  float scale = 1;
  void* to = nullptr;
};
struct FactorPackings {
  FactorPacking of[3];
};

// One thread for each part, blockIdx.y for each packing.
template <CudaPrecision kPrecision, int kWidth>
__global__ void __launch_bounds__(256)
    PackFactorsKernel(const __grid_constant__ FactorPackings packings,
                      int heads) {
  WaitForEarlierKernels();
  const FactorPacking& p = packings.of[blockIdx.y];
  const int part = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  const int head = part / kFactorParts<kWidth>;
  if (head >= heads) return;
  const int fragment = part % kFactorParts<kWidth> / 32;
  const float* const from =
      p.from.data + int64_t{head} * p.rows * p.from.stride;
  const int cols = static_cast<int>(p.from.cols);
  float x[4];
  GatherB(
      fragment / (kWidth / 8) * 16, fragment % (kWidth / 8) * 8,
      [&](int k, int n) {
        const int row = p.transpose ? n : k, col = p.transpose ? k : n;
        return row < p.rows && col < cols
                   ? p.scale * from[row * p.from.stride + col]
                   : 0.0f;
      },
      x);
  static_cast<PackedB<kPrecision>*>(p.to)[part] = PackB<kPrecision>(x);
}

// sums (16, kWidth) += a times the factor of a head.
template <CudaPrecision kPrecision, int kWidth, typename Held>
__device__ __forceinline__ void AddTimesFactor(const Held& a,
                                               const void* factor, int head,
                                               float (&sums)[kWidth / 8][4]) {
  const PackedB<kPrecision>* const parts =
      static_cast<const PackedB<kPrecision>*>(factor) +
      int64_t{head} * kFactorParts<kWidth> + WarpLane();
  [[maybe_unused]] constexpr int kUnroll =
      Held::kInRegisters || kWidth <= 32 ? kWidth / 16 : 1;
#pragma unroll kUnroll
  for (int c = 0; c < kWidth / 16; ++c) {
    const AFragment<kPrecision> left = a(c);
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
      FetchNoFurther<kPrecision, kWidth>(j);
      Multiply(sums[j], left, UnpackB(parts[(c * (kWidth / 8) + j) * 32]));
    }
  }
}

// 16 rows of shared memory = a times the factor of a head; the warp waits for
// itself. In parts, where the sums would take too many registers.
template <CudaPrecision kPrecision, int kWidth, typename Held>
__device__ __forceinline__ void StoreTimesFactor(const Held& a,
                                                 const void* factor, int head,
                                                 Stored<kPrecision>* rows) {
  constexpr int kPart = kWidth < 64 ? kWidth : 32;
  const PackedB<kPrecision>* const parts =
      static_cast<const PackedB<kPrecision>*>(factor) +
      int64_t{head} * kFactorParts<kWidth> + WarpLane();
#pragma unroll 1
  for (int first = 0; first < kWidth; first += kPart) {
    float sums[kPart / 8][4];
    SetZero(sums);
#pragma unroll 2
    for (int c = 0; c < kWidth / 16; ++c) {
      const AFragment<kPrecision> left = a(c);
#pragma unroll
      for (int j = 0; j < kPart / 8; ++j) {
        const int fragment = c * (kWidth / 8) + first / 8 + j;
        MultiplyFew(sums[j], left, UnpackB(parts[fragment * 32]));
      }
    }
    StoreSums<kPart, kWidth>(sums, 1, rows + first);
  }
  __syncwarp();
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FACTORS_H_
