// A 32 x 32 tile of c = alpha op(a) op(b) + beta c + x in float32, whatever the
// precision of large products, by a block of 256 threads, four elements each.
#ifndef COMERA_KERNELS_CUDA_DEVICE_SMALL_PRODUCT_H_
#define COMERA_KERNELS_CUDA_DEVICE_SMALL_PRODUCT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/split_sum.h"
#include "kernels/cuda/small_tasks.h"

namespace comera::kernels {

class SmallProduct {
 private:
  static constexpr int kThreads = 256;
  // The side of a tile, and the step along the inner size.
  static constexpr int kEdge = kFloat32Edge;
  static constexpr int kTilePart = kEdge * kEdge / kThreads;
  static constexpr int kRowLanes = kThreads / kEdge;

 public:
  // Rows begin at pairs of floats.
  using Tile = float[kEdge][kEdge + 2];
  static constexpr int kSharedBytes = 2 * int{sizeof(Tile)};

  // `own`: which block of the task. All threads.
  static __device__ __forceinline__ void Run(const SmallTask& task, int own,
                                             const SplitScratch& scratch,
                                             void* shared) {
    const ProductBlock block = BlockOf<kEdge>(task, own);
    Tile& left = static_cast<Tile*>(shared)[0];
    Tile& right = static_cast<Tile*>(shared)[1];
    // The thread's two rows and two columns, read as pairs.
    const int tx = threadIdx.x % 16 * 2, ty = threadIdx.x / 16 * 2;
    float a[kTilePart], b[kTilePart], sum[2][2] = {};
    // op(b) (inner, cols) by its columns is the transpose of what `a` is.
    const bool across_b = !task.transpose_b;
    const auto fetch = [&](int k) {
      Fetch(task.a, task.a_stride, task.transpose_a, task.rows, block.end,
            block.first_row, k, a);
      Fetch(task.b, task.b_stride, across_b, task.cols, block.end,
            block.first_col, k, b);
    };
    fetch(block.begin);
    for (int k = block.begin; k < block.end; k += kEdge) {
      __syncthreads();  // the step before is done
      Put(a, task.transpose_a, left);
      Put(b, across_b, right);
      __syncthreads();
      if (k + kEdge < block.end) fetch(k + kEdge);
#pragma unroll
      for (int i = 0; i < kEdge; ++i) {
        const float2 x = *reinterpret_cast<const float2*>(&left[i][ty]);
        const float2 y = *reinterpret_cast<const float2*>(&right[i][tx]);
        sum[0][0] += x.x * y.x;
        sum[0][1] += x.x * y.y;
        sum[1][0] += x.y * y.x;
        sum[1][1] += x.y * y.y;
      }
    }
    if (!AddParts<kThreads>(task, block, scratch, sum)) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = block.first_row + ty + i;
        const int col = block.first_col + tx + j;
        if (row >= task.rows || col >= task.cols) continue;
        float* const to =
            task.c + static_cast<int64_t>(row) * task.c_stride + col;
        float value = task.alpha * sum[i][j];
        if (task.x != nullptr) value += task.x[col];
        *to = task.beta == 0 ? value : value + task.beta * *to;
      }
    }
  }

 private:
  // The part of a tile that a thread brings from memory: element (i, k) of
  // op(m) with `rows` of i and `inner` of k.
  static __device__ __forceinline__ void Fetch(const float* m, int stride,
                                               bool transposed, int rows,
                                               int inner, int first_row,
                                               int first_inner,
                                               float (&part)[kTilePart]) {
    const int low = threadIdx.x % kEdge, high = threadIdx.x / kEdge;
#pragma unroll
    for (int j = 0; j < kTilePart; ++j) {
      const int other = high + j * kRowLanes;
      const int i = first_row + (transposed ? low : other);
      const int k = first_inner + (transposed ? other : low);
      const int64_t at = transposed ? static_cast<int64_t>(k) * stride + i
                                    : static_cast<int64_t>(i) * stride + k;
      part[j] = i < rows && k < inner ? m[at] : 0.0f;
    }
  }

  // tile[k][i].
  static __device__ __forceinline__ void Put(const float (&part)[kTilePart],
                                             bool transposed, Tile& tile) {
    const int low = threadIdx.x % kEdge, high = threadIdx.x / kEdge;
#pragma unroll
    for (int j = 0; j < kTilePart; ++j) {
      const int other = high + j * kRowLanes;
      tile[transposed ? other : low][transposed ? low : other] = part[j];
    }
  }
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_SMALL_PRODUCT_H_
