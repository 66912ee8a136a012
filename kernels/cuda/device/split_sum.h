// Sums of products whose inner size is cut into parts, each of them a block of
// threads: what takes the place of atomic additions of floats, whose order is
// another in every run.
#ifndef COMERA_KERNELS_CUDA_DEVICE_SPLIT_SUM_H_
#define COMERA_KERNELS_CUDA_DEVICE_SPLIT_SUM_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/last_block.h"
#include "kernels/cuda/small_tasks.h"

namespace comera::kernels {

// Where a block of a product works: own = part * tiles + tile, so that blocks
// that run at a time read the same slices of the operands.
struct ProductBlock {
  int tile, part;
  int first_row, first_col;
  int begin, end;  // along the inner size
};

template <int kEdge>
__device__ __forceinline__ ProductBlock BlockOf(const SmallTask& task,
                                                int own) {
  const int across = (task.cols + kEdge - 1) / kEdge;
  const int tiles = (task.rows + kEdge - 1) / kEdge * across;
  ProductBlock block;
  block.part = own / tiles;
  block.tile = own - block.part * tiles;
  block.first_row = block.tile / across * kEdge;
  block.first_col = block.tile % across * kEdge;
  block.begin = block.part * task.part_inner;
  block.end = min(task.inner, block.begin + task.part_inner);
  return block;
}

// Turns the sums of one part into those of all parts, in the block of a tile
// that comes last; in all others it returns false. Parts are added in their
// order, whichever block does it. All threads of the block.
template <int kThreads, int kRows, int kCols>
__device__ __forceinline__ bool AddParts(const SmallTask& task,
                                         const ProductBlock& block,
                                         const SplitScratch& scratch,
                                         float (&sums)[kRows][kCols]) {
  if (task.parts == 1) return true;
  // A thread finds its own elements only, so any order of them will do: that in
  // which a warp writes neighbours.
  constexpr int kCount = kRows * kCols, kTile = kThreads * kCount;
  float* const of_tile = scratch.sums + task.first_sum +
                         static_cast<int64_t>(block.tile) * task.parts * kTile +
                         threadIdx.x;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    of_tile[block.part * kTile + i * kThreads] = sums[i / kCols][i % kCols];
  }
  if (!IsLast(scratch.arrived + task.first_arrived + block.tile, task.parts)) {
    return false;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i / kCols][i % kCols] = 0;
#pragma unroll 2
  for (int part = 0; part < task.parts; ++part) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i / kCols][i % kCols] +=
          __ldcg(of_tile + part * kTile + i * kThreads);
    }
  }
  return true;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_SPLIT_SUM_H_
