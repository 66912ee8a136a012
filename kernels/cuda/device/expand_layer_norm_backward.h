// The gradient of ExpandLayerNorm but for that of b: LayerNorm backward, the
// mask, and grad_t = (mask * grad) b^T, from one reading of the stream.
#ifndef COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_BACKWARD_H_
#define COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_BACKWARD_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

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
  // Of block i: the gradients of gamma and beta (2, cols).
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

// One row: grad takes the place of grad_y in `g`, times the mask.
template <bool kAligned>
__device__ __forceinline__ void ExpandBackwardRow(const ExpandBackward& p,
                                                  int64_t row, float* g,
                                                  const float* x,
                                                  const uint32_t* keep) {
  const int cols = p.b.cols;
  float mean = 0, slope = 0;
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
    float gamma[4], grad[4], normalised[4];
    LoadRun<kAligned>(p.gamma + c, cols - c, gamma);
    LoadRun<true>(g + c, cols - c, grad);
    LoadRun<true>(x + c, cols - c, normalised);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scaled = grad[i] * gamma[i];  // 0 behind the end
      mean += scaled;
      slope = fmaf(scaled, normalised[i], slope);
    }
  }
  const float share = 1.0f / static_cast<float>(cols);
  mean = WarpSum(mean) * share;
  slope = WarpSum(slope) * share;
  const float inverse = p.inverse_deviation[row];
  for (int c = 4 * WarpLane(); c < cols; c += 128) {
    float gamma[4], grad[4], normalised[4];
    LoadRun<kAligned>(p.gamma + c, cols - c, gamma);
    LoadRun<true>(g + c, cols - c, grad);
    LoadRun<true>(x + c, cols - c, normalised);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      grad[i] =
          (fmaf(grad[i], gamma[i], -mean) - normalised[i] * slope) * inverse;
    }
    StoreRun<kAligned>(grad, cols - c,
                       p.grad_residual.data + row * p.grad_residual.stride + c);
    if (keep != nullptr) {
      const uint32_t kept = keep[c / 32] >> (c % 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        grad[i] = (kept >> i & 1) != 0 ? grad[i] * p.dropout.scale : 0.0f;
      }
    }
    StoreRun<true>(grad, cols - c, g + c);
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
    for (int k = 16 * warp; k < cols; k += 16 * kStreamWarps) {
      const auto a = LoadA<kPrecision>(grad + k, stride);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float x[4];
        GatherB(
            k, turn + 8 * n, [&](int i, int j) { return p.b.At(j, i); }, x);
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
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += kStreamThreads) {
    gamma_sums[c] = 0;
    beta_sums[c] = 0;
  }

  for (int first = static_cast<int>(blockIdx.x) * kStreamRows; first < p.rows;
       first += static_cast<int>(gridDim.x) * kStreamRows) {
    CopyRows<kAligned>(p.grad_y, p.grad_y_stride, first, p.rows, cols, grad);
    CopyRows<kAligned>(p.normalised, p.normalised_stride, first, p.rows, cols,
                       normalised);
    if (drops) DrawKeepWords(p.dropout, first, p.rows, cols, keep);
    WaitForCopies<0>();
    __syncthreads();
    // A thread owns the sums of its columns.
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
    for (int r = warp; r < kStreamRows && first + r < p.rows;
         r += kStreamWarps) {
      ExpandBackwardRow<kAligned>(p, first + r, grad + r * stride,
                                  normalised + r * stride,
                                  drops ? keep + r * groups : nullptr);
    }
    __syncthreads();
    ExpandBackwardProduct<kPrecision>(p, first, grad, normalised);
    __syncthreads();
  }

  float* to = p.sums + int64_t{blockIdx.x} * 2 * cols;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += kStreamThreads) {
    to[c] = gamma_sums[c];
    to[cols + c] = beta_sums[c];
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_EXPAND_LAYER_NORM_BACKWARD_H_
