// A 64 x 64 tile of c = alpha op(a) op(b) + beta c + x on tensor cores, by a
// block of 256 threads: any sizes, strides and alignment.
//
// Warps lie in 2 rows of 4, each with 32 x 16 of the tile. A step is 32 of the
// inner size: its operands go from memory into registers while the step before
// is multiplied, are rounded, and lie in one of two halves of shared memory as
// they lie in memory, along the inner size or across it, for which mma_tile.h
// has a function each.
#ifndef COMERA_KERNELS_CUDA_DEVICE_TENSOR_TILE_H_
#define COMERA_KERNELS_CUDA_DEVICE_TENSOR_TILE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/mma_tile.h"
#include "kernels/cuda/device/split_sum.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/small_tasks.h"

namespace comera::kernels {

template <CudaPrecision kPrecision>
class TensorTile {
 private:
  using T = Stored<kPrecision>;
  static constexpr int kEdge = kTensorEdge, kStep = 32, kThreads = 256;
  // Distances of rows in shared memory, without bank conflicts (mma_tile.h):
  // of rows along the inner size, and of rows across it.
  static constexpr int kAlong = kStep + 8;
  static constexpr int kAcross = kEdge + (sizeof(T) == 4 ? 4 : 8);
  static constexpr int kOperand = kEdge * kAlong;
  static_assert(kStep * kAcross <= kOperand);
  static constexpr int kRuns = kEdge * kStep / 4 / kThreads;  // a thread's

 public:
  static constexpr int kSharedBytes = 4 * kOperand * int{sizeof(T)};

  // `own`: which block of the task. All threads.
  static __device__ __forceinline__ void Run(const SmallTask& task, int own,
                                             const SplitScratch& scratch,
                                             void* shared) {
    const ProductBlock block = BlockOf<kEdge>(task, own);
    const bool along_a = !task.transpose_a, along_b = task.transpose_b;
    const bool vectors_a = OnVectors(task.a, task.a_stride);
    const bool vectors_b = OnVectors(task.b, task.b_stride);
    T* const halves = static_cast<T*>(shared);  // a, b, a, b
    float a[kRuns][4], b[kRuns][4];
    const auto fetch = [&](int k) {
      Fetch(task.a, task.a_stride, along_a, vectors_a, task.rows, block.end,
            block.first_row, k, a);
      Fetch(task.b, task.b_stride, along_b, vectors_b, task.cols, block.end,
            block.first_col, k, b);
    };
    const auto put = [&](int half) {
      Put(a, along_a, halves + 2 * half * kOperand);
      Put(b, along_b, halves + (2 * half + 1) * kOperand);
    };
    float sums[4][4] = {};  // tile 2 i + j is i down, j across
    fetch(block.begin);
    put(0);
    __syncthreads();
    int half = 0;
    for (int k = block.begin; k < block.end; k += kStep, half ^= 1) {
      const bool more = k + kStep < block.end;
      if (more) fetch(k + kStep);
      Step(halves + 2 * half * kOperand, along_a, along_b, sums);
      // All are done with that half since the barrier before.
      if (more) put(half ^ 1);
      __syncthreads();
    }
    if (AddParts<kThreads>(task, block, scratch, sums)) {
      Write(task, block, sums);
    }
  }

 private:
  static __device__ __forceinline__ bool OnVectors(const float* m, int stride) {
    return reinterpret_cast<uintptr_t>(m) % 16 == 0 && stride % 4 == 0;
  }

  // Run `j` of this thread lies on this line of an operand in shared memory,
  // and at this place on it.
  static __device__ __forceinline__ int LineOf(bool along, int j) {
    const int runs = along ? kStep / 4 : kEdge / 4;
    return static_cast<int>(threadIdx.x) / runs + j * (kThreads / runs);
  }
  static __device__ __forceinline__ int PlaceOf(bool along) {
    const int runs = along ? kStep / 4 : kEdge / 4;
    return 4 * (static_cast<int>(threadIdx.x) % runs);
  }

  // Reads this thread's runs of 4 floats of rows (or columns) from `first` on
  // and of the inner size from `k` on; zeros beyond `size` and `end`.
  static __device__ __forceinline__ void Fetch(const float* m, int stride,
                                               bool along, bool vectors,
                                               int size, int end, int first,
                                               int k, float (&x)[kRuns][4]) {
    const int first_line = along ? first : k, lines = along ? size : end;
    const int first_place = along ? k : first, places = along ? end : size;
    const float* const from =
        m + static_cast<int64_t>(first_line + LineOf(along, 0)) * stride +
        first_place + PlaceOf(along);
    const int64_t next =
        static_cast<int64_t>(LineOf(along, 1) - LineOf(along, 0)) * stride;
    // The same for the whole block: its loads are under way together.
    if (vectors && first_line + (along ? kEdge : kStep) <= lines &&
        first_place + (along ? kStep : kEdge) <= places) {
#pragma unroll
      for (int j = 0; j < kRuns; ++j) LoadRun<true>(from + j * next, 4, x[j]);
      return;
    }
    const int count = places - first_place - PlaceOf(along);
#pragma unroll
    for (int j = 0; j < kRuns; ++j) {
      const bool within = first_line + LineOf(along, j) < lines;
      LoadRun<false>(from + j * next, within ? count : 0, x[j]);
    }
  }

  static __device__ __forceinline__ void Put(const float (&x)[kRuns][4],
                                             bool along, T* operand) {
#pragma unroll
    for (int j = 0; j < kRuns; ++j) {
      T* const to = operand + LineOf(along, j) * (along ? kAlong : kAcross) +
                    PlaceOf(along);
      Store2(x[j][0], x[j][1], to);
      Store2(x[j][2], x[j][3], to + 2);
    }
  }

  static __device__ __forceinline__ int FirstRow() {
    return static_cast<int>(threadIdx.x) / 128 * 32;
  }
  static __device__ __forceinline__ int FirstCol() {
    return static_cast<int>(threadIdx.x) / 32 % 4 * 16;
  }

  static __device__ __forceinline__ void Step(const T* operands, bool along_a,
                                              bool along_b,
                                              float (&sums)[4][4]) {
    const std::true_type yes;
    const std::false_type no;
    if (along_a) {
      along_b ? Multiply(operands, yes, yes, sums)
              : Multiply(operands, yes, no, sums);
    } else {
      along_b ? Multiply(operands, no, yes, sums)
              : Multiply(operands, no, no, sums);
    }
  }

  template <typename AlongA, typename AlongB>
  static __device__ __forceinline__ void Multiply(const T* operands, AlongA,
                                                  AlongB, float (&sums)[4][4]) {
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      const auto load_a = [&](int row) {
        if constexpr (AlongA::value) {
          return LoadA<kPrecision>(operands + row * kAlong + k, kAlong);
        } else {
          return LoadATransposed<kPrecision>(operands + k * kAcross + row,
                                             kAcross);
        }
      };
      const auto load_b = [&](int col) {
        const T* const b = operands + kOperand;
        if constexpr (AlongB::value) {
          return LoadBTransposed<kPrecision>(b + col * kAlong + k, kAlong);
        } else {
          return LoadB<kPrecision>(b + k * kAcross + col, kAcross);
        }
      };
      const AFragment<kPrecision> a[2] = {load_a(FirstRow()),
                                          load_a(FirstRow() + 16)};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const BFragment<kPrecision> b = load_b(FirstCol() + 8 * j);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          kernels::Multiply<kPrecision>(sums[2 * i + j], a[i], b);
        }
      }
    }
  }

  static __device__ __forceinline__ void Write(const SmallTask& task,
                                               const ProductBlock& block,
                                               const float (&sums)[4][4]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = block.first_row + FirstRow() + 16 * (i / 8) +
                      8 * (i / 2 % 2) + LaneGroup();
      const int col =
          block.first_col + FirstCol() + 8 * (i / 4 % 2) + LanePair() + i % 2;
      if (row >= task.rows || col >= task.cols) continue;
      float* const to =
          task.c + static_cast<int64_t>(row) * task.c_stride + col;
      float value = task.alpha * sums[i / 4][i % 4];
      if (task.x != nullptr) value += task.x[col];
      *to = task.beta == 0 ? value : value + task.beta * *to;
    }
  }
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_TENSOR_TILE_H_
