// Formula: to += t^T x, a sum over rows of the stream; x as it is, times gamma
// plus beta, or times the mask of dropout. Where asked for, it also adds up the
// gradients of gamma and beta that another kernel left in parts.
// Shapes: t (rows, rank), x (rows, cols), sums (ranges, rank, cols).
// Threads: a block owns 32 columns and a range of rows, of which its warps take
// every eighth 16; x goes from device memory to the tensor cores, since no
// other warp needs it. The block of some columns that comes last adds up the
// ranges, in their order.
#ifndef COMERA_KERNELS_CUDA_DEVICE_STREAM_SUMS_H_
#define COMERA_KERNELS_CUDA_DEVICE_STREAM_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/last_block.h"
#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/stream_rows.h"

namespace comera::kernels {

enum class StreamElement { kAsIs, kScaled, kMasked };

struct StreamSums {
  DeviceMatrix t, x;
  const float *gamma, *beta;  // kScaled
  const uint32_t* keep;       // kMasked: (rows, groups)
  float scale;                // multiplies what is kept
  // The sums of each range blockIdx.y, where there are several.
  float* sums;
  int range_rows;
  // What they are added to: (rank, cols), or (cols, rank) if `transposed`.
  float* to;
  int64_t to_stride;
  bool transposed;
  // A zero for each group of columns and of ranks, left as such.
  int* arrived;
  // Parts (2, cols) of the gradients of gamma and beta; none if null.
  const float* vector_parts;
  int vector_count;
  float *grad_gamma, *grad_beta;
};

inline constexpr int kStreamSumsBytes =
    kStreamWarps * 16 * 32 * static_cast<int>(sizeof(float));

// The gradients of gamma and beta of 32 columns: a thread adds up every eighth
// part of a column. All threads of the block.
__device__ __forceinline__ void AddVectorParts(const StreamSums& p,
                                               int first_col, float* scratch) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int col = first_col + WarpLane();
  const bool valid = col < p.x.cols;
  float gamma = 0, beta = 0;
#pragma unroll 4
  for (int part = warp; part < p.vector_count; part += kStreamWarps) {
    const float* const from =
        p.vector_parts + int64_t{part} * 2 * p.x.cols + col;
    gamma += valid ? from[0] : 0.0f;
    beta += valid ? from[p.x.cols] : 0.0f;
  }
  scratch[threadIdx.x] = gamma;
  scratch[kStreamThreads + threadIdx.x] = beta;
  __syncthreads();
  if (warp == 0 && valid) {
    for (int w = 1; w < kStreamWarps; ++w) {
      gamma += scratch[32 * w + WarpLane()];
      beta += scratch[kStreamThreads + 32 * w + WarpLane()];
    }
    p.grad_gamma[col] += gamma;
    p.grad_beta[col] += beta;
  }
  __syncthreads();
}

// Blocks of threads per multiprocessor for which registers suffice.
template <CudaPrecision kPrecision, int kRankTiles>
inline constexpr int kStreamSumsResident =
    kRankTiles <= (kPrecision == CudaPrecision::kFp32 ? 1 : 2) ? 2 : 1;

// blockIdx: group of columns, range of rows, group of 16 * kRankTiles ranks.
template <CudaPrecision kPrecision, int kRankTiles, StreamElement kElement>
__global__ __launch_bounds__(
    kStreamThreads,
    (kStreamSumsResident<kPrecision,
                         kRankTiles>)) void StreamSumsKernel(StreamSums p) {
  WaitForEarlierKernels();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = static_cast<int>(blockIdx.x);
  const int first_col = group * kGroupColumns;
  const int first_rank = static_cast<int>(blockIdx.z) * 16 * kRankTiles;
  const int begin = static_cast<int>(blockIdx.y) * p.range_rows;
  const int end = min(begin + p.range_rows, p.x.rows);
  // Rows behind the range are zeros, which add nothing.
  const DeviceMatrix all_t = {p.t.data, p.t.stride, end, p.t.cols};
  const DeviceMatrix all_x = {p.x.data, p.x.stride, end, p.x.cols};
  const int groups = StreamGroups(p.x.cols);

  float gamma[4], beta[4];
  if constexpr (kElement == StreamElement::kScaled) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int col = first_col + 8 * n + LaneGroup();
      gamma[n] = col < p.x.cols ? p.gamma[col] : 0.0f;
      beta[n] = col < p.x.cols ? p.beta[col] : 0.0f;
    }
  }

  float sums[kRankTiles][4][4] = {};
#pragma unroll 1
  for (int row = begin + 16 * warp; row < end; row += 16 * kStreamWarps) {
    // load
    const DeviceMatrix t = all_t.Block(row, first_rank);
    const DeviceMatrix x = all_x.Block(row, first_col);
    float values[4][4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      GatherB(
          0, 8 * n, [&](int i, int j) { return x.At(i, j); }, values[n]);
    }
    uint32_t kept[4];
    if constexpr (kElement == StreamElement::kMasked) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = row + LanePair() + 8 * (i / 2) + i % 2;
        kept[i] = at < end ? p.keep[int64_t{at} * groups + group] : 0;
        kept[i] >>= LaneGroup();
      }
    }
    AValues ranks[kRankTiles];
#pragma unroll
    for (int m = 0; m < kRankTiles; ++m) {
      ranks[m] = GatherA(16 * m, 0, [&](int i, int k) { return t.At(k, i); });
    }
    // scale or mask
    BFragment<kPrecision> b[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& value = values[n][i];
        if constexpr (kElement == StreamElement::kScaled) {
          value = fmaf(value, gamma[n], beta[n]);
        } else if constexpr (kElement == StreamElement::kMasked) {
          value = (kept[i] >> (8 * n) & 1) != 0 ? value * p.scale : 0.0f;
        }
      }
      b[n] = MakeB<kPrecision>(values[n]);
    }
    // multiply
#pragma unroll
    for (int m = 0; m < kRankTiles; ++m) {
      const auto a = MakeA<kPrecision>(ranks[m].left, ranks[m].right);
#pragma unroll
      for (int n = 0; n < 4; ++n) Multiply<kPrecision>(sums[m][n], a, b[n]);
    }
  }

  // sum over the warps, 16 ranks at a time
  float* partial = DynamicShared<float>();
  const int64_t rank = p.t.cols, cols = p.x.cols;
  const bool whole = gridDim.y == 1;
  float* const own = p.sums + blockIdx.y * rank * cols;
  const auto target = [&](int64_t k, int64_t c) -> float& {
    return p.to[p.transposed ? c * p.to_stride + k : k * p.to_stride + c];
  };
#pragma unroll
  for (int m = 0; m < kRankTiles; ++m) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      partial[(warp * 16 + i) * 32 + WarpLane()] = sums[m][i / 4][i % 4];
    }
    __syncthreads();
#pragma unroll
    for (int i = warp; i < 16; i += kStreamWarps) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kStreamWarps; ++w) {
        sum += partial[(w * 16 + i) * 32 + WarpLane()];
      }
      const int64_t k = first_rank + 16 * m + LaneGroup() + 8 * (i / 2 % 2);
      const int64_t c = first_col + 8 * (i / 4) + LanePair() + i % 2;
      if (k >= rank || c >= cols) continue;
      if (whole) {
        target(k, c) += sum;
      } else {
        own[k * cols + c] = sum;
      }
    }
  }
  if (p.vector_parts != nullptr && blockIdx.y == gridDim.y - 1 &&
      blockIdx.z == 0) {
    __syncthreads();
    AddVectorParts(p, first_col, partial);
  }
  if (whole || !IsLast(p.arrived + blockIdx.z * gridDim.x + blockIdx.x,
                       static_cast<int>(gridDim.y))) {
    return;
  }
  // sum over the ranges
  for (int i = warp; i < 16 * kRankTiles; i += kStreamWarps) {
    const int64_t k = first_rank + i, c = first_col + WarpLane();
    if (k >= rank || c >= cols) continue;
    float sum = 0;
#pragma unroll 4
    for (unsigned range = 0; range < gridDim.y; ++range) {
      sum += __ldcg(p.sums + (range * rank + k) * cols + c);
    }
    target(k, c) += sum;
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_STREAM_SUMS_H_
