#include "kernels/cuda/sum_parts.h"

#include "kernels/cuda/launch.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void SumPartsKernel(
    const float* parts, int64_t count, int64_t part_floats, bool add, float* to,
    int64_t rows, int64_t cols, int64_t stride) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < rows * cols; i += int64_t{gridDim.x} * kThreads) {
    float sum = 0;
#pragma unroll 4
    for (int64_t p = 0; p < count; ++p) sum += parts[p * part_floats + i];
    float* at = to + i / cols * stride + i % cols;
    *at = add ? *at + sum : sum;
  }
}

}  // namespace

absl::Status SumParts(cudaStream_t stream, const float* parts, int64_t count,
                      int64_t part_floats, bool add, Matrix to) {
  return Launch(
      "SumParts",
      {Blocks(to.rows * to.cols, kThreads, 4096), kThreads, 0, stream},
      SumPartsKernel, parts, count, part_floats, add, to.data, to.rows, to.cols,
      to.stride);
}

}  // namespace comera::kernels
