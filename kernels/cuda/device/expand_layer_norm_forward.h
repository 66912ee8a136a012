// y = LayerNorm(dropout(t b) + residual) with t b in registers.
#ifndef COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_FORWARD_H_
#define COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_FORWARD_H_

#include <cuda_runtime.h>

#include <cstdint>

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

template <CudaPrecision kPrecision, bool kAligned>
__global__ __launch_bounds__(kStreamThreads,
                             2) void ExpandForwardKernel(ExpandForward p) {
  const int cols = p.b.cols, rows = p.t.rows;
  const int stride = StreamStride(cols), groups = StreamGroups(cols);
  const int rank_tiles = (p.t.cols + 15) / 16;
  float* tile = DynamicShared<float>();
  auto* vectors = reinterpret_cast<float4*>(tile + kStreamRows * stride);
  auto* keep = reinterpret_cast<uint32_t*>(vectors + 64 * rank_tiles);
  const bool drops = p.dropout.state != nullptr;
  const int first = static_cast<int>(blockIdx.x) * kStreamRows;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  CopyRows<kAligned>(p.residual, p.residual_stride, first, rows, cols, tile);
  PackRankVectors<1>(
      rank_tiles, [&](int i, int k) { return p.t.At(first + i, k); }, vectors);
  if (drops) DrawKeepWords(p.dropout, first, rows, cols, keep);
  __syncthreads();

  // The first product runs while the residual is on its way.
  for (int turn = 0; turn * kStreamWarps < groups; ++turn) {
    const int group = turn * kStreamWarps + warp;
    float sums[1][4][4];
    RankProduct<kPrecision, 1>(
        vectors, rank_tiles,
        [&](int k, int n) { return p.b.At(k, group * kGroupColumns + n); },
        sums);
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

  const float share = 1.0f / static_cast<float>(cols);
  for (int r = warp; r < kStreamRows && first + r < rows; r += kStreamWarps) {
    const float* x = tile + r * stride;
    float sum = 0;
    for (int c = 4 * WarpLane(); c < cols; c += 128) {
      float run[4];
      LoadRun<true>(x + c, cols - c, run);
      sum += (run[0] + run[1]) + (run[2] + run[3]);
    }
    const float mean = WarpSum(sum) * share;
    float squares = 0;
    for (int c = 4 * WarpLane(); c < cols; c += 128) {
      float run[4];
      LoadRun<true>(x + c, cols - c, run);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float d = c + i < cols ? run[i] - mean : 0.0f;
        squares = fmaf(d, d, squares);
      }
    }
    const float inverse =
        1.0f / sqrtf(fmaf(WarpSum(squares), share, p.epsilon));
    const int64_t row = first + r;
    if (WarpLane() == 0) p.inverse_deviation[row] = inverse;
    for (int c = 4 * WarpLane(); c < cols; c += 128) {
      float run[4], gamma[4], beta[4], y[4];
      LoadRun<true>(x + c, cols - c, run);
      LoadRun<kAligned>(p.gamma + c, cols - c, gamma);
      LoadRun<kAligned>(p.beta + c, cols - c, beta);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        run[i] = (run[i] - mean) * inverse;
        y[i] = fmaf(run[i], gamma[i], beta[i]);
      }
      StoreRun<kAligned>(run, cols - c,
                         p.normalised.data + row * p.normalised.stride + c);
      StoreRun<kAligned>(y, cols - c, p.y.data + row * p.y.stride + c);
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_FORWARD_H_
