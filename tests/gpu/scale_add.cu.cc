// The kernel behind ScaleAdd, with one thread per element.

#include "tests/gpu/scale_add.h"

#include "kernels/cuda/launch.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    ScaleAddKernel(int64_t count, float a, const float* __restrict__ x,
                   float* __restrict__ y) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}

}  // namespace

absl::Status ScaleAdd(int64_t count, float a, const float* x, float* y,
                      cudaStream_t stream) {
  return Launch("ScaleAdd",
                {.grid = dim3(Blocks(count, kThreads)),
                 .block = dim3(kThreads),
                 .stream = {stream}},
                ScaleAddKernel, count, a, x, y);
}

}  // namespace comera::kernels
