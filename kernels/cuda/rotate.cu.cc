// Formula: (a, b) -> (a cos - b sin, b cos + a sin) of columns i and i +
// head_width / 2 of a head, by the angle positions[row] theta^(-2 i /
// head_width), or back by it.
// Shapes: x (rows, heads * head_width); positions (rows).
// Threads: one takes a row and a pair of columns of each of its heads, so that
// sine and cosine are computed once for all of them.
#include <cuda_runtime.h>

#include <cmath>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

struct Angles {
  const int32_t* positions;
  // Logarithms to base 2: of a pair's turns per position that of pair i is
  // first + i * step. In double, since of thousands of turns only the last
  // digits count.
  double first, step;
  float sign;
};

__global__ void __launch_bounds__(256)
    RotateKernel(Angles angles, Matrix x, int64_t half) {
  WaitForEarlierKernels();
  const int64_t total = x.rows * half;
  const int64_t grid = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += grid) {
    const int64_t row = Divide(at, half), i = at - row * half;
    // sine and cosine
    const double turns =
        angles.positions[row] *
        exp2(angles.first + static_cast<double>(i) * angles.step);
    float sine, cosine;
    sincospif(static_cast<float>(2.0 * (turns - rint(turns))), &sine, &cosine);
    sine *= angles.sign;
    // turn
    float* const columns = x.data + row * x.stride + i;
    for (int64_t head = 0; head < x.cols; head += 2 * half) {
      const float a = columns[head], b = columns[head + half];
      columns[head] = a * cosine - b * sine;
      columns[head + half] = b * cosine + a * sine;
    }
  }
}

}  // namespace

absl::Status CudaBackend::Rotate(int64_t head_width, float theta, bool inverse,
                                 ConstIndices positions, Matrix x) {
  RETURN_IF_ERROR(CheckRotate(head_width, theta, positions, x));
  if (x.rows == 0 || x.cols == 0) return absl::OkStatus();
  const int64_t half = head_width / 2;
  constexpr double kLog2OfTwoPi = 2.6514961294723187;
  const Angles angles = {
      positions.data, -kLog2OfTwoPi,
      -std::log2(static_cast<double>(theta)) / static_cast<double>(half),
      inverse ? -1.0f : 1.0f};
  return Launch("Rotate",
                Shape(Blocks(x.rows * half, 256, 16 * Multiprocessors()), 256),
                RotateKernel, angles, x, half);
}

}  // namespace comera::kernels
