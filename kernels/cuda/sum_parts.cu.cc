// Formula: to = or += the sum of `count` partial matrices, in one order.
// Shapes: parts (count, rows * cols), at part_floats from each other; to (rows,
// cols), with a row stride.
// Threads: a block takes 32 elements at a time, sixteen threads to an element:
// every sixteenth part each, so that many loads are under way.
#include "kernels/cuda/sum_parts.h"

#include <algorithm>

#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/launch.h"

namespace comera::kernels {
namespace {

constexpr int kColumns = 32;
constexpr int kSlices = 16;
constexpr int kMost = 3;

struct Arguments {
  PartialSums sums[kMost];
};

__global__ __launch_bounds__(kColumns* kSlices) void SumPartsKernel(
    Arguments arguments) {
  WaitForEarlierKernels();
  __shared__ float slices[kSlices][kColumns];
  const PartialSums& s = arguments.sums[blockIdx.y];
  const int64_t size = s.to.rows * s.to.cols;
  for (int64_t first = int64_t{blockIdx.x} * kColumns; first < size;
       first += int64_t{gridDim.x} * kColumns) {
    const int64_t i = first + threadIdx.x;
    // sum of every sixteenth part
    float sum = 0;
    if (i < size) {
#pragma unroll 8
      for (int64_t p = threadIdx.y; p < s.count; p += kSlices) {
        sum += s.parts[p * s.part_floats + i];
      }
    }
    slices[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    // sum of the sixteen
    if (threadIdx.y == 0 && i < size) {
#pragma unroll
      for (int slice = 1; slice < kSlices; ++slice) {
        sum += slices[slice][threadIdx.x];
      }
      float* to = s.to.data + i / s.to.cols * s.to.stride + i % s.to.cols;
      *to = s.add ? *to + sum : sum;
    }
    __syncthreads();
  }
}

}  // namespace

absl::Status SumParts(KernelStream stream,
                      std::initializer_list<PartialSums> sums) {
  Arguments arguments;
  int64_t largest = 0;
  unsigned count = 0;
  for (const PartialSums& each : sums) {
    const int64_t size = each.to.rows * each.to.cols;
    if (size == 0) continue;
    largest = std::max(largest, size);
    arguments.sums[count++] = each;
  }
  if (count == 0) return absl::OkStatus();
  return Launch("SumParts",
                {dim3(Blocks(largest, kColumns, 4096), count),
                 dim3(kColumns, kSlices), 0, stream},
                SumPartsKernel, arguments);
}

}  // namespace comera::kernels
