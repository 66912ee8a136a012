// Rows of the residual stream in shared memory: what the kernels at the ends of
// a branch in rank space have in common. A block of threads owns 16 whole rows,
// so that they are read and written once; a warp owns 32 of their columns at a
// time for products, and two rows for what goes along rows.
#ifndef COMERA_KERNELS_CUDA_DEVICE_STREAM_ROWS_H_
#define COMERA_KERNELS_CUDA_DEVICE_STREAM_ROWS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/dropout.h"
#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

inline constexpr int kStreamRows = 16;
inline constexpr int kStreamWarps = 8;
inline constexpr int kStreamThreads = 32 * kStreamWarps;
inline constexpr int kGroupColumns = 32;

__host__ __device__ inline int StreamGroups(int cols) {
  return (cols + kGroupColumns - 1) / kGroupColumns;
}
// Floats from row to row in shared memory: 8 mod 32, against bank conflicts of
// fragments, and with room for the last group.
__host__ __device__ inline int StreamStride(int cols) {
  return StreamGroups(cols) * kGroupColumns + 8;
}
__host__ __device__ inline int64_t StreamTileBytes(int cols) {
  return int64_t{kStreamRows} * StreamStride(cols) *
         static_cast<int64_t>(sizeof(float));
}
// Bytes of the words that say which elements dropout keeps: one per row and
// group.
__host__ __device__ inline int64_t KeepWordBytes(int cols) {
  return int64_t{kStreamRows} * StreamGroups(cols) *
         static_cast<int64_t>(sizeof(uint32_t));
}

// A matrix of the stream in device memory.
struct StreamMatrix {
  float* data;
  int64_t stride;
};

// Rows [first, first + 16) of a matrix into shared memory, in the background;
// zeros beyond its rows and columns. kAligned: rows begin at multiples of 16
// bytes, cols is a multiple of 4.
template <bool kAligned>
__device__ __forceinline__ void CopyRows(const float* data, int64_t stride,
                                         int64_t first, int64_t rows, int cols,
                                         float* tile) {
  const int to_stride = StreamStride(cols);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int r = warp; r < kStreamRows; r += kStreamWarps) {
    const bool valid = first + r < rows;
    const float* from = data + (valid ? (first + r) * stride : 0);
    float* to = tile + r * to_stride;
    if constexpr (kAligned) {
      for (int c = 4 * WarpLane(); c < to_stride; c += 128) {
        const bool copies = valid && c < cols;
        CopyAsync16(to + c, copies ? from + c : data, copies);
      }
    } else {
      for (int c = WarpLane(); c < to_stride; c += 32) {
        to[c] = valid && c < cols ? from[c] : 0.0f;
      }
    }
  }
  CommitCopies();
}

// Draws the numbers of dropout for rows [first, first + 16) into keep; d is
// active.
__device__ __forceinline__ void DrawKeepWords(const DeviceDropout& d,
                                              int64_t first, int64_t rows,
                                              int cols, uint32_t* keep) {
  const int groups = StreamGroups(cols);
  auto* bytes = reinterpret_cast<uint8_t*>(keep);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int r = warp; r < kStreamRows && first + r < rows; r += kStreamWarps) {
    const DropoutRow row = RowOf(d, first + r);
    for (int g = WarpLane(); g < 4 * groups; g += 32) {
      float scales[8];
      DropoutScales(d, row, static_cast<uint32_t>(g), scales);
      uint32_t byte = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) byte |= (scales[i] > 0 ? 1u : 0u) << i;
      bytes[r * 4 * groups + g] = static_cast<uint8_t>(byte);
    }
  }
}

// Rank vectors of kRowTiles * 16 rows as A fragments in shared memory, for all
// warps: fragment (row tile m, k) is number m * k_tiles + k, two float4 per
// lane.
template <int kRowTiles, typename Get>
__device__ __forceinline__ void PackRankVectors(int k_tiles, const Get& get,
                                                float4* to) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int f = warp; f < kRowTiles * k_tiles; f += kStreamWarps) {
    KeepA(GatherA(f / k_tiles * 16, f % k_tiles * 16, get), to + 64 * f);
  }
}
inline int64_t RankVectorBytes(int row_tiles, int64_t k_tiles) {
  return row_tiles * k_tiles * 64 * static_cast<int64_t>(sizeof(float4));
}

// sums = rank vectors times the 32 columns of weights that get(k, n) gives, n
// from 0. The weights come straight from device memory: no other warp of the
// block needs them.
template <CudaPrecision kPrecision, int kRowTiles, typename Get>
__device__ __forceinline__ void RankProduct(const float4* vectors, int k_tiles,
                                            const Get& get,
                                            float (&sums)[kRowTiles][4][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles * 16; ++i) sums[i / 16][i / 4 % 4][i % 4] = 0;
#pragma unroll 2
  for (int k = 0; k < k_tiles; ++k) {
    float x[4][4];
#pragma unroll
    for (int n = 0; n < 4; ++n) GatherB(16 * k, 8 * n, get, x[n]);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const auto a = KeptA<kPrecision>(vectors + 64 * (m * k_tiles + k));
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        Multiply<kPrecision>(sums[m][n], a, MakeB<kPrecision>(x[n]));
      }
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_STREAM_ROWS_H_
