// Formula: y += t w^T in the residual stream; y is read and written once.
// Shapes: y (rows, cols), t (rows, rank), w (cols, rank).
// Threads: a block takes 32 rows, a warp every eighth 32 columns of them; where
// there are few rows, blocks share the columns of the same rows.
#ifndef COMERA_KERNELS_CUDA_DEVICE_STREAM_ADD_PRODUCT_H_
#define COMERA_KERNELS_CUDA_DEVICE_STREAM_ADD_PRODUCT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/stream_rows.h"

namespace comera::kernels {

struct StreamAddProduct {
  DeviceMatrix t, w;
  StreamMatrix y;
};

inline constexpr int kAddRowTiles = 2;
inline constexpr int kAddRows = 16 * kAddRowTiles;

// kPairs: rows of y begin at multiples of 8 bytes and cols is even.
template <bool kPairs>
__device__ __forceinline__ float2 LoadPair(const float* at, int count) {
  if constexpr (kPairs) {
    return count > 0 ? *reinterpret_cast<const float2*>(at) : make_float2(0, 0);
  } else {
    return make_float2(count > 0 ? at[0] : 0, count > 1 ? at[1] : 0);
  }
}
template <bool kPairs>
__device__ __forceinline__ void StorePair(float2 x, float* at, int count) {
  if constexpr (kPairs) {
    if (count > 0) *reinterpret_cast<float2*>(at) = x;
  } else {
    if (count > 0) at[0] = x.x;
    if (count > 1) at[1] = x.y;
  }
}

template <CudaPrecision kPrecision, bool kPairs>
__global__ __launch_bounds__(kStreamThreads) void StreamAddProductKernel(
    StreamAddProduct p) {
  WaitForEarlierKernels();
  const int cols = p.w.rows, rows = p.t.rows;
  const int rank_tiles = (p.t.cols + 15) / 16;
  auto* vectors = DynamicShared<float4>();
  const int first = static_cast<int>(blockIdx.x) * kAddRows;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  // rank vectors of the rows
  const DeviceMatrix t = p.t.Block(first, 0);
  PackRankVectors<kAddRowTiles>(
      rank_tiles, [&](int i, int k) { return t.At(i, k); }, vectors);
  __syncthreads();
  const int step = kStreamWarps * static_cast<int>(gridDim.y);
  for (int group = kStreamWarps * static_cast<int>(blockIdx.y) + warp;
       group < StreamGroups(cols); group += step) {
    const int col = group * kGroupColumns + LanePair();
    // y is on its way while the product is made.
    float2 y[kAddRowTiles][2][4];
    const auto at = [&](int i, int n) {
      const int64_t row = first + LaneGroup() + 8 * i;
      return p.y.data + row * p.y.stride + col + 8 * n;
    };
    const auto count = [&](int i, int n) {
      return first + LaneGroup() + 8 * i < rows ? cols - col - 8 * n : 0;
    };
#pragma unroll
    for (int i = 0; i < 2 * kAddRowTiles; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        y[i / 2][i % 2][n] = LoadPair<kPairs>(at(i, n), count(i, n));
      }
    }
    // product
    const DeviceMatrix w = p.w.Block(group * kGroupColumns, 0);
    float sums[kAddRowTiles][4][4];
    RankProduct<kPrecision, kAddRowTiles>(
        vectors, rank_tiles, [&](int k, int n) { return w.At(n, k); }, sums);
#pragma unroll
    for (int i = 0; i < 2 * kAddRowTiles; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float2 x = y[i / 2][i % 2][n];
        x.x += sums[i / 2][n][2 * (i % 2)];
        x.y += sums[i / 2][n][2 * (i % 2) + 1];
        StorePair<kPairs>(x, at(i, n), count(i, n));
      }
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_STREAM_ADD_PRODUCT_H_
