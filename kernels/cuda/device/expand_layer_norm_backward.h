// Formula: with g = grad_y * gamma, grad_residual = (g - mean(g) - normalised *
// mean(g * normalised)) * rstd, grad_t = (mask * grad_residual) b^T, and the
// sums over rows for gamma and beta, from one reading of the stream.
// Shapes: grad_y, normalised, grad_residual (rows, cols); b (rank, cols);
// grad_t (rows, rank).
// Threads: a block takes every gridDim.x-th tile of 16 rows; a warp takes two
// rows for LayerNorm, and a share of the columns for grad_t.
#ifndef COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_BACKWARD_H_
#define COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_BACKWARD_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/stream_rows.h"
#include "kernels/cuda/device/vector_access.h"

namespace comera::kernels {

struct ExpandBackward {
  DeviceDropout dropout;
  DeviceMatrix b;  // without the bias
  const float *grad_y, *normalised;
  int64_t grad_y_stride, normalised_stride;
  const float *inverse_deviation, *gamma;
  StreamMatrix grad_residual, grad_t;
  uint32_t* keep;  // (rows, groups), written with dropout
  // The gradients of gamma and beta (2, cols) from each block.
  float* sums;
  int rows;
};

inline constexpr int kRankTurn = 32;  // ranks of one turn of grad_t
inline int64_t ExpandBackwardBytes(int cols) {
  const int64_t partial = int64_t{kStreamWarps} * kStreamRows * kRankTurn *
                          static_cast<int64_t>(sizeof(float));
  return StreamTileBytes(cols) + std::max(StreamTileBytes(cols), partial) +
         2 * StreamStride(cols) * static_cast<int64_t>(sizeof(float)) +
         KeepWordBytes(cols);
}

// LayerNorm backward of a tile, two rows to a warp, which share gamma: grad
// takes the place of grad_y in `tile`, times the mask.
template <bool kAligned>
__device__ __forceinline__ void ExpandBackwardRows(const ExpandBackward& p,
                                                   int first, float* tile,
                                                   const float* normalised,
                                                   const uint32_t* keep) {
  static_assert(kStreamRows == 2 * kStreamWarps);
  const int cols = p.b.cols, stride = StreamStride(cols);
  const int groups = StreamGroups(cols);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool drops = p.dropout.state != nullptr;
  // means
  float mean[2] = {}, slope[2] = {}, inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t at = first + warp + r * kStreamWarps;
    inverse[r] = LoadOrZero(p.inverse_deviation + at, at < p.rows);
  }
#pragma unroll 2
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
    float gamma[4];
    LoadRun<kAligned>(p.gamma + c, kAligned ? 4 : cols - c, gamma);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // Behind the last column there are zeros.
      const int at = (warp + r * kStreamWarps) * stride + c;
      float grad[4], x[4];
      LoadRun<true>(tile + at, 4, grad);
      LoadRun<true>(normalised + at, 4, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float scaled = grad[i] * gamma[i];
        mean[r] += scaled;
        slope[r] = fmaf(scaled, x[i], slope[r]);
      }
    }
  }
  const float share = 1.0f / static_cast<float>(cols);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    mean[r] = WarpSum(mean[r]) * share;
    slope[r] = WarpSum(slope[r]) * share;
  }
  // gradient, and its mask
#pragma unroll 2
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
    const int count = kAligned ? 4 : cols - c;
    float gamma[4];
    LoadRun<kAligned>(p.gamma + c, count, gamma);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = warp + r * kStreamWarps;
      const int64_t to = first + row;
      if (to >= p.rows) continue;  // the tile has zeros there
      float grad[4], x[4];
      LoadRun<true>(tile + row * stride + c, 4, grad);
      LoadRun<true>(normalised + row * stride + c, 4, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        grad[i] =
            (fmaf(grad[i], gamma[i], -mean[r]) - x[i] * slope[r]) * inverse[r];
      }
      StoreRun<kAligned>(
          grad, count, p.grad_residual.data + to * p.grad_residual.stride + c);
      if (drops) {
        const uint32_t kept = keep[row * groups + c / 32] >> (c % 32);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          grad[i] = (kept >> i & 1) != 0 ? grad[i] * p.dropout.scale : 0.0f;
        }
      }
      StoreRun<true>(grad, count, tile + row * stride + c);
    }
  }
}

// grad_t of 16 rows: each warp takes its share of the columns, the warps'
// sums go through shared memory.
template <CudaPrecision kPrecision>
__device__ __forceinline__ void ExpandBackwardProduct(const ExpandBackward& p,
                                                      int first,
                                                      const float* grad,
                                                      float* partial) {
  const int cols = p.b.cols, rank = p.b.rows, stride = StreamStride(cols);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int turn = 0; turn < rank; turn += kRankTurn) {
    float sums[4][4] = {};
#pragma unroll(kPrecision == CudaPrecision::kBf16 ? 2 : 1)
    for (int k = 16 * warp; k < cols; k += 16 * kStreamWarps) {
      const auto a = LoadA<kPrecision>(grad + k, stride);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float x[4];
        const DeviceMatrix b = p.b.Block(turn, k);
        GatherB(
            0, 8 * n, [&](int i, int j) { return b.At(j, i); }, x);
        Multiply<kPrecision>(sums[n], a, MakeB<kPrecision>(x));
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = LaneGroup() + 8 * (i / 2 % 2);
      const int col = 8 * (i / 4) + LanePair() + i % 2;
      partial[(warp * kStreamRows + row) * kRankTurn + col] =
          sums[i / 4][i % 4];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kStreamRows * kRankTurn;
         i += kStreamThreads) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kStreamWarps; ++w) {
        sum += partial[w * kStreamRows * kRankTurn + i];
      }
      const int row = first + i / kRankTurn, col = turn + i % kRankTurn;
      if (row < p.rows && col < rank) {
        p.grad_t.data[row * p.grad_t.stride + col] = sum;
      }
    }
    __syncthreads();
  }
}

// Blocks take every gridDim.x-th tile of 16 rows.
template <CudaPrecision kPrecision, bool kAligned>
__global__ __launch_bounds__(kStreamThreads,
                             2) void ExpandBackwardKernel(ExpandBackward p) {
  WaitForEarlierKernels();
  const int cols = p.b.cols;
  const int stride = StreamStride(cols), groups = StreamGroups(cols);
  const int tile_floats = kStreamRows * stride;
  float* gamma_sums = DynamicShared<float>();
  float* beta_sums = gamma_sums + stride;
  float* grad = beta_sums + stride;
  auto* keep = reinterpret_cast<uint32_t*>(grad + tile_floats);
  // Last, since the warps' sums, which take their place, may need more room.
  float* normalised = grad + tile_floats + kStreamRows * groups;
  const bool drops = p.dropout.state != nullptr;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += kStreamThreads) {
    gamma_sums[c] = 0;
    beta_sums[c] = 0;
  }

  for (int first = static_cast<int>(blockIdx.x) * kStreamRows; first < p.rows;
       first += static_cast<int>(gridDim.x) * kStreamRows) {
    // load, and draw the mask
    CopyRows<kAligned>(p.grad_y, p.grad_y_stride, first, p.rows, cols, grad);
    CopyRows<kAligned>(p.normalised, p.normalised_stride, first, p.rows, cols,
                       normalised);
    if (drops) DrawKeepWords(p.dropout, first, p.rows, cols, keep);
    WaitForCopies<0>();
    __syncthreads();
    // gradients of gamma and beta: a thread owns the sums of its columns
    for (int c = static_cast<int>(threadIdx.x); c < cols; c += kStreamThreads) {
      float gamma_sum = 0, beta_sum = 0;
#pragma unroll
      for (int r = 0; r < kStreamRows; ++r) {
        const float g = grad[r * stride + c];
        gamma_sum = fmaf(g, normalised[r * stride + c], gamma_sum);
        beta_sum += g;
      }
      gamma_sums[c] += gamma_sum;
      beta_sums[c] += beta_sum;
    }
    if (drops) {
      const int words = min(kStreamRows, p.rows - first) * groups;
      for (int i = static_cast<int>(threadIdx.x); i < words;
           i += kStreamThreads) {
        p.keep[int64_t{first} * groups + i] = keep[i];
      }
    }
    __syncthreads();
    // gradient of the sum
    ExpandBackwardRows<kAligned>(p, first, grad, normalised, keep);
    __syncthreads();
    // grad_t
    ExpandBackwardProduct<kPrecision>(p, first, grad, normalised);
    __syncthreads();
  }

  // leave the sums over rows
  float* to = p.sums + int64_t{blockIdx.x} * 2 * cols;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += kStreamThreads) {
    to[c] = gamma_sums[c];
    to[cols + c] = beta_sums[c];
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_BACKWARD_H_
