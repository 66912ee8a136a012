// Formula: s = dropout(t b) + residual, normalised = (s - mean) * rstd,
// y = normalised * gamma + beta.
// Shapes: t (rows, rank + 1), b (rank + 1, cols), the others (rows, cols) or
// vectors (cols); inverse_deviation, which is rstd, (rows).
// Threads: a block takes 16 whole rows; a warp makes 32 columns of t b at a
// time in registers, and normalises two rows.
#ifndef COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_FORWARD_H_
#define COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_FORWARD_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/stream_rows.h"
#include "kernels/cuda/device/vector_access.h"

namespace comera::kernels {

struct ExpandForward {
  DeviceDropout dropout;
  DeviceMatrix t, b;
  const float* residual;
  int64_t residual_stride;
  const float *gamma, *beta;
  float epsilon;
  StreamMatrix normalised;
  float* inverse_deviation;
  StreamMatrix y;
};

inline int64_t ExpandForwardBytes(int64_t rank_tiles, int cols) {
  return StreamTileBytes(cols) + RankVectorBytes(1, rank_tiles) +
         KeepWordBytes(cols);
}

// LayerNorm of a tile, two rows to a warp, which share gamma and beta.
template <bool kAligned>
__device__ __forceinline__ void NormaliseRows(const ExpandForward& p, int first,
                                              const float* tile) {
  static_assert(kStreamRows == 2 * kStreamWarps);
  const int cols = p.b.cols, stride = StreamStride(cols);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const float* row[2] = {tile + warp * stride,
                         tile + (warp + kStreamWarps) * stride};
  const float share = 1.0f / static_cast<float>(cols);
  // mean
  float mean[2] = {}, squares[2] = {}, inverse[2];
#pragma unroll 4
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // Behind the last column there are zeros.
      const float4 x = *reinterpret_cast<const float4*>(row[r] + c);
      mean[r] += (x.x + x.y) + (x.z + x.w);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) mean[r] = WarpSum(mean[r]) * share;
    // rstd
#pragma unroll 4
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float x[4];
      LoadRun<true>(row[r] + c, 4, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float d = kAligned || c + i < cols ? x[i] - mean[r] : 0.0f;
        squares[r] = fmaf(d, d, squares[r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    inverse[r] = 1.0f / sqrtf(fmaf(WarpSum(squares[r]), share, p.epsilon));
    const int64_t at = first + warp + r * kStreamWarps;
    if (WarpLane() == 0 && at < p.t.rows) p.inverse_deviation[at] = inverse[r];
  }
  // normalise and write
#pragma unroll 2
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
    const int count = kAligned ? 4 : cols - c;
    float gamma[4], beta[4];
    LoadRun<kAligned>(p.gamma + c, count, gamma);
    LoadRun<kAligned>(p.beta + c, count, beta);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t at = first + warp + r * kStreamWarps;
      if (at >= p.t.rows) continue;
      float x[4], y[4];
      LoadRun<true>(row[r] + c, 4, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = (x[i] - mean[r]) * inverse[r];
        y[i] = fmaf(x[i], gamma[i], beta[i]);
      }
      StoreRun<kAligned>(x, count,
                         p.normalised.data + at * p.normalised.stride + c);
      StoreRun<kAligned>(y, count, p.y.data + at * p.y.stride + c);
    }
  }
}

// How many blocks find registers and shared memory on a multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <CudaPrecision kPrecision>
inline constexpr int kExpandForwardResident = 2;
#else
template <CudaPrecision kPrecision>
inline constexpr int kExpandForwardResident =
    kPrecision == CudaPrecision::kFp32 ? 2 : 3;
#endif

template <CudaPrecision kPrecision, bool kAligned>
__global__ __launch_bounds__(
    kStreamThreads,
    (kExpandForwardResident<kPrecision>)) void ExpandForwardKernel(ExpandForward
                                                                       p) {
  WaitForEarlierKernels();
  const int cols = p.b.cols, rows = p.t.rows;
  const int stride = StreamStride(cols), groups = StreamGroups(cols);
  const int rank_tiles = (p.t.cols + 15) / 16;
  float* tile = DynamicShared<float>();
  auto* vectors = reinterpret_cast<float4*>(tile + kStreamRows * stride);
  auto* keep = reinterpret_cast<uint32_t*>(vectors + 64 * rank_tiles);
  const bool drops = p.dropout.state != nullptr;
  const int first = static_cast<int>(blockIdx.x) * kStreamRows;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  // load, and draw the mask
  CopyRows<kAligned>(p.residual, p.residual_stride, first, rows, cols, tile);
  const DeviceMatrix t = p.t.Block(first, 0);
  PackRankVectors<1>(
      rank_tiles, [&](int i, int k) { return t.At(i, k); }, vectors);
  if (drops) DrawKeepWords(p.dropout, first, rows, cols, keep);
  __syncthreads();

  // dropout(t b) + residual: the first product runs while the residual is on
  // its way
  for (int turn = 0; turn * kStreamWarps < groups; ++turn) {
    const int group = turn * kStreamWarps + warp;
    const DeviceMatrix b = p.b.Block(0, group * kGroupColumns);
    float sums[1][4][4];
    RankProduct<kPrecision, 1>(
        vectors, rank_tiles, [&](int k, int n) { return b.At(k, n); }, sums);
    if (turn == 0) {
      WaitForCopies<0>();
      __syncthreads();
    }
    if (group >= groups) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = LaneGroup() + 8 * half;
      const uint32_t kept =
          (drops ? keep[row * groups + group] : 0xffffffffu) >> LanePair();
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        auto* at = reinterpret_cast<float2*>(
            tile + row * stride + group * kGroupColumns + 8 * n + LanePair());
        float2 x = *at;
        if ((kept >> (8 * n) & 1) != 0) {
          x.x = fmaf(p.dropout.scale, sums[0][n][2 * half], x.x);
        }
        if ((kept >> (8 * n) & 2) != 0) {
          x.y = fmaf(p.dropout.scale, sums[0][n][2 * half + 1], x.y);
        }
        *at = x;
      }
    }
  }
  __syncthreads();

  // mean, rstd, normalise
  NormaliseRows<kAligned>(p, first, tile);
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_FORWARD_H_
