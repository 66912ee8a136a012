// Formula: normalised = x * rstd with rstd = 1 / sqrt(mean of x^2 + epsilon),
// y = normalised * gamma.
// Shapes: x, normalised, y (rows, cols); gamma (cols); inverse_deviation, which
// is rstd, (rows).
// Threads: a warp takes a row of up to 1024 columns and holds it in registers,
// eight columns to a lane and group; a block takes a wider row.
#include <cuda_runtime.h>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

constexpr int kRowsPerBlock = 8;  // a warp to a row
// Columns that a warp holds in registers, eight to a lane and group.
constexpr int64_t kGroupColumns = 256;
constexpr int64_t kMostGroups = 4;

struct Operands {
  ConstMatrix x;
  const float* gamma;
  float epsilon;
  Matrix normalised;
  float* inverse_deviation;
  Matrix y;
};

__device__ __forceinline__ float SumOfSquares(const float (&x)[8], float sum) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += x[i] * x[i];
  return sum;
}

template <bool kAligned>
__device__ __forceinline__ void StoreNormalised(const Operands& p, int64_t row,
                                                int64_t group, float inverse,
                                                const float (&x)[8]) {
  const int64_t count = p.x.cols - 8 * group;
  float gamma[8], normalised[8], y[8];
  LoadRun<kAligned>(p.gamma + 8 * group, count, gamma);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    normalised[i] = x[i] * inverse;
    y[i] = normalised[i] * gamma[i];
  }
  StoreRun<kAligned>(normalised, count,
                     p.normalised.data + row * p.normalised.stride + 8 * group);
  StoreRun<kAligned>(y, count, p.y.data + row * p.y.stride + 8 * group);
}

__device__ __forceinline__ float InverseDeviation(const Operands& p,
                                                  float squares) {
  return 1.0f / sqrtf(squares / static_cast<float>(p.x.cols) + p.epsilon);
}

template <int kGroups, bool kAligned>
__global__ void __launch_bounds__(32 * kRowsPerBlock)
    NormWarpKernel(Operands p) {
  WaitForEarlierKernels();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock +
                      static_cast<int>(threadIdx.x) / 32;
  if (row >= p.x.rows) return;
  // rstd
  float x[kGroups][8];
  float squares = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t group = lane + 32 * g;
    LoadRun<kAligned>(p.x.data + row * p.x.stride + 8 * group,
                      p.x.cols - 8 * group, x[g]);
    squares = SumOfSquares(x[g], squares);
  }
  const float inverse = InverseDeviation(p, WarpSum(squares));
  // normalise and write
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    StoreNormalised<kAligned>(p, row, lane + 32 * g, inverse, x[g]);
  }
  if (lane == 0) p.inverse_deviation[row] = inverse;
}

// A block to a row of any width, which it reads twice.
template <bool kAligned>
__global__ void __launch_bounds__(256) NormBlockKernel(Operands p) {
  WaitForEarlierKernels();
  const int64_t row = blockIdx.x, cols = p.x.cols;
  const float* const from = p.x.data + row * p.x.stride;
  // rstd
  float squares = 0;
  for (int64_t group = threadIdx.x; 8 * group < cols; group += blockDim.x) {
    float x[8];
    LoadRun<kAligned>(from + 8 * group, cols - 8 * group, x);
    squares = SumOfSquares(x, squares);
  }
  const float inverse = InverseDeviation(p, BlockSum(squares));
  // normalise and write
  for (int64_t group = threadIdx.x; 8 * group < cols; group += blockDim.x) {
    float x[8];
    LoadRun<kAligned>(from + 8 * group, cols - 8 * group, x);
    StoreNormalised<kAligned>(p, row, group, inverse, x);
  }
  if (threadIdx.x == 0) p.inverse_deviation[row] = inverse;
}

template <bool kAligned>
absl::Status LaunchNorm(KernelStream stream, const Operands& p) {
  constexpr char kOp[] = "RmsNorm";
  const LaunchShape warps = {Blocks(p.x.rows, kRowsPerBlock),
                             32 * kRowsPerBlock, 0, stream};
  switch ((p.x.cols + kGroupColumns - 1) / kGroupColumns) {
    case 1:
      return Launch(kOp, warps, NormWarpKernel<1, kAligned>, p);
    case 2:
      return Launch(kOp, warps, NormWarpKernel<2, kAligned>, p);
    case 3:
      return Launch(kOp, warps, NormWarpKernel<3, kAligned>, p);
    case kMostGroups:
      return Launch(kOp, warps, NormWarpKernel<kMostGroups, kAligned>, p);
    default:
      return Launch(kOp, {Blocks(p.x.rows, 1), 256, 0, stream},
                    NormBlockKernel<kAligned>, p);
  }
}

}  // namespace

absl::Status CudaBackend::RmsNorm(ConstMatrix x, ConstVector gamma,
                                  float epsilon, Matrix normalised,
                                  Vector inverse_deviation, Matrix y) {
  RETURN_IF_ERROR(CheckRmsNorm(x, gamma, normalised, inverse_deviation, y));
  if (x.cols == 0) return absl::OkStatus();
  const Operands p = {
      x, gamma.data, epsilon, normalised, inverse_deviation.data, y};
  const bool aligned = RowsAligned(x) && RowsAligned(normalised) &&
                       RowsAligned(y) && Aligned(gamma);
  return aligned ? LaunchNorm<true>(stream_, p) : LaunchNorm<false>(stream_, p);
}

}  // namespace comera::kernels
