// Formula: to[j] += sum over rows i of element(i, j), in a fixed order.
// Shapes: elements (rows, cols), of a matrix or computed; to (cols).
// Threads: a block takes 32 columns of a run of rows, eight threads to a
// column; the sums of several runs are added up by a second launch.
#ifndef COMERA_KERNELS_CUDA_DEVICE_COLUMN_SUMS_H_
#define COMERA_KERNELS_CUDA_DEVICE_COLUMN_SUMS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scratch_size.h"

namespace comera::kernels {

// A block sums 32 columns of its run of rows, eight threads to a column.
// sums[blockIdx.y, j] = or, with kAdd and one run of rows, sums[j] +=.
template <bool kAdd, typename Element>
__global__ void __launch_bounds__(256)
    ColumnSumsKernel(int64_t rows, int64_t cols, int64_t rows_per_block,
                     Element element, float* sums) {
  WaitForEarlierKernels();
  __shared__ float tile[8][32];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t first = blockIdx.y * rows_per_block;
  const int64_t last =
      first + rows_per_block < rows ? first + rows_per_block : rows;
  // sum of every eighth row
  float sum = 0;
  if (column < cols) {
#pragma unroll 4
    for (int64_t row = first + threadIdx.y; row < last; row += 8) {
      sum += element(row, column);
    }
  }
  tile[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= cols) return;
  // sum of the eight
  for (int i = 1; i < 8; ++i) sum += tile[i][threadIdx.x];
  if (kAdd) {
    sums[column] += sum;
  } else {
    sums[blockIdx.y * cols + column] = sum;
  }
}

// Rows of partial sums that lie `stride` apart.
struct PartialRows {
  const float* partial;
  int64_t stride;
  __device__ float operator()(int64_t row, int64_t column) const {
    return partial[row * stride + column];
  }
};

// to[j] += sum over rows of partial[row * stride + j].
inline absl::Status AddPartialRows(const char* name, KernelStream stream,
                                   const float* partial, int64_t rows,
                                   int64_t cols, int64_t stride, float* to) {
  return Launch(name, {Blocks(cols, 32), dim3(32, 8), 0, stream},
                ColumnSumsKernel<true, PartialRows>, rows, cols, rows,
                PartialRows{partial, stride}, to);
}

// Into how many ranges of rows AddColumnSums cuts a matrix.
inline int64_t ColumnSumRanges(int64_t rows, int64_t cols) {
  const int64_t column_blocks = std::max<int64_t>((cols + 31) / 32, 1);
  const int64_t room = kMostScratchBytes / int64_t{sizeof(float)};
  return std::max<int64_t>(
      1, std::min({4 * kSumMultiprocessors / column_blocks, (rows + 31) / 32,
                   room / std::max<int64_t>(cols, 1)}));
}
// The floats of scratch memory that AddColumnSums needs.
inline int64_t ColumnSumFloats(int64_t rows, int64_t cols) {
  const int64_t ranges = ColumnSumRanges(rows, cols);
  return ranges == 1 ? 0 : ranges * cols;
}

// to[j] += sum over rows of element(row, j), which is called once for each
// element and may have effects. `scratch` has ColumnSumFloats.
template <typename Element>
absl::Status AddColumnSums(const char* name, KernelStream stream, int64_t rows,
                           int64_t cols, Element element, float* scratch,
                           float* to) {
  if (rows == 0 || cols == 0) return absl::OkStatus();
  const int64_t column_blocks = (cols + 31) / 32;
  const int64_t row_blocks = ColumnSumRanges(rows, cols);
  const int64_t rows_per_block = (rows + row_blocks - 1) / row_blocks;
  const dim3 grid(static_cast<unsigned>(column_blocks),
                  static_cast<unsigned>(row_blocks));
  if (row_blocks == 1) {
    return Launch(name, {grid, dim3(32, 8), 0, stream},
                  ColumnSumsKernel<true, Element>, rows, cols, rows_per_block,
                  element, to);
  }
  RETURN_IF_ERROR(Launch(name, {grid, dim3(32, 8), 0, stream},
                         ColumnSumsKernel<false, Element>, rows, cols,
                         rows_per_block, element, scratch));
  return AddPartialRows(name, stream, scratch, row_blocks, cols, cols, to);
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_COLUMN_SUMS_H_
