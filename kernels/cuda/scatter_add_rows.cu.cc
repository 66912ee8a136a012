// Formula: table[rows[j], :] += in[j, :], in order of j for each row.
// Shapes: in (n, cols), rows (n), table (any, cols).
// Threads: no atomics. The row numbers are sorted, stably; each run of equal
// ones has one owner for every four columns, which adds in order of j.
#include <cuda_runtime.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/radix_sort.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Numbers of one sort; more are taken in turn.
constexpr int64_t kMostNumbers = int64_t{1} << 20;

// Blocks of 64 threads along a row, four columns to each, by 4 numbers; only
// the first of a run of equal numbers has work.
constexpr dim3 kRunsBlock(64, 4);

template <bool kAligned>
__global__ void __launch_bounds__(256)
    AddRunsKernel(ConstMatrix in, SortList sorted, Matrix table) {
  WaitForEarlierKernels();
  int64_t i = static_cast<int64_t>(blockIdx.x) * kRunsBlock.y + threadIdx.y;
  const int64_t column =
      4 * (static_cast<int64_t>(blockIdx.y) * kRunsBlock.x + threadIdx.x);
  const int64_t count = in.cols - column;
  if (i >= in.rows || count <= 0) return;
  const int32_t row = sorted.keys[i];
  if (i > 0 && sorted.keys[i - 1] == row) return;
  float* const to = table.data + row * table.stride + column;
  float sum[4];
  LoadRun<kAligned>(to, count, sum);
#pragma unroll 4
  for (; i < in.rows && sorted.keys[i] == row; ++i) {
    float x[4];
    LoadRun<kAligned>(in.data + sorted.places[i] * in.stride + column, count,
                      x);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[k] += x[k];
  }
  StoreRun<kAligned>(sum, count, to);
}

}  // namespace

absl::Status CudaBackend::ScatterAddRows(ConstMatrix in, ConstIndices rows,
                                         Matrix table) {
  constexpr char kOp[] = "ScatterAddRows";
  RETURN_IF_ERROR(CheckMatrix(kOp, "table", table));
  RETURN_IF_ERROR(CheckMatrix(kOp, "in", in, rows.size, table.cols));
  RETURN_IF_ERROR(CheckMemory(kOp, "rows", rows.data, rows.size));
  const unsigned column_blocks = Blocks(in.cols, 4 * kRunsBlock.x);
  // Two lists of keys and places, which the passes use in turn, and counts.
  static_assert((4 * kMostNumbers + kMostNumbers / kSortTile * kDigits) *
                    int64_t{sizeof(int32_t)} <=
                kMostScratchBytes);
  const int64_t numbers = std::min(kMostNumbers, rows.size);
  ASSIGN_OR_RETURN(
      int32_t* const lists,
      Scratch<int32_t>(4 * numbers +
                       int64_t{Blocks(numbers, kSortTile)} * kDigits));
  int32_t* const counts = lists + 4 * numbers;
  const bool aligned = RowsAligned(in) && RowsAligned(table);
  for (int64_t first = 0; first < rows.size; first += kMostNumbers) {
    const int n = static_cast<int>(std::min(kMostNumbers, rows.size - first));
    const unsigned tiles = Blocks(n, kSortTile);
    SortList from = {const_cast<int32_t*>(rows.data) + first, nullptr};
    // sort the row numbers, eight bits at a time
    int half = 0;
    for (int shift = 0; shift == 0 || (table.rows - 1) >> shift > 0;
         shift += 8) {
      const SortList to = {lists + 2 * half * numbers,
                           lists + (2 * half + 1) * numbers};
      RETURN_IF_ERROR(Launch(kOp, Shape(tiles, kSortThreads), CountDigitsKernel,
                             from.keys, n, shift, counts));
      RETURN_IF_ERROR(Launch(kOp, Shape(1, 1024), SumBeforeKernel, counts,
                             static_cast<int>(tiles) * kDigits));
      RETURN_IF_ERROR(Launch(kOp, Shape(tiles, kSortThreads), MoveByDigitKernel,
                             from, n, shift, counts, to));
      from = to;
      half = 1 - half;
    }
    // add the runs of equal numbers
    const ConstMatrix part(in.data + first * in.stride, n, in.cols, in.stride);
    const dim3 grid(Blocks(n, kRunsBlock.y), column_blocks);
    RETURN_IF_ERROR(Launch(kOp, Shape(grid, kRunsBlock),
                           aligned ? AddRunsKernel<true> : AddRunsKernel<false>,
                           part, from, table));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
