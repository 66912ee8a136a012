// Formula: s = dropout(x) + residual, normalised = (s - mean) * rstd,
// y = normalised * gamma + beta; rstd = 1 / sqrt(variance + epsilon).
// Shapes: x, residual, normalised, y (rows, cols); gamma, beta (cols);
// inverse_deviation, which is rstd, (rows).
// Threads: a warp takes a row of up to 1024 columns and holds it in registers,
// eight columns to a lane and group; a block takes a wider row.
#include <cuda_runtime.h>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/dropout.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kRowsPerBlock = 8;  // a warp to a row
// Columns that a warp holds in registers, eight to a lane and group.
constexpr int64_t kGroupColumns = 256;
constexpr int64_t kMostGroups = 4;

template <typename T>
struct Operands {
  DeviceDropout dropout;
  MatrixView<const T> x, residual;
  const float *gamma, *beta;
  float epsilon;
  MatrixView<T> normalised;
  float* inverse_deviation;
  MatrixView<T> y;
};

// dropout(x) + residual of eight columns.
template <bool kAligned, typename T>
__device__ __forceinline__ void LoadSum(const Operands<T>& p, int64_t row,
                                        const DropoutRow& random, int64_t group,
                                        int64_t count, float (&sum)[8]) {
  LoadRun<kAligned>(p.x.data + row * p.x.stride + 8 * group, count, sum);
  if (p.dropout.state != nullptr && count > 0) {
    float scales[8];
    DropoutScales(p.dropout, random, static_cast<uint32_t>(group), scales);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= scales[i];
  }
  if (p.residual.data != nullptr) {
    float add[8];
    LoadRun<kAligned>(p.residual.data + row * p.residual.stride + 8 * group,
                      count, add);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += add[i];
  }
}

template <bool kAligned, typename T>
__device__ __forceinline__ void StoreNormalised(const Operands<T>& p,
                                                int64_t row, int64_t group,
                                                int64_t count, float mean,
                                                float inverse,
                                                const float (&sum)[8]) {
  float gamma[8], beta[8], normalised[8], y[8];
  LoadRun<kAligned>(p.gamma + 8 * group, count, gamma);
  LoadRun<kAligned>(p.beta + 8 * group, count, beta);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    normalised[i] = (sum[i] - mean) * inverse;
    y[i] = normalised[i] * gamma[i] + beta[i];
  }
  StoreRun<kAligned>(normalised, count,
                     p.normalised.data + row * p.normalised.stride + 8 * group);
  StoreRun<kAligned>(y, count, p.y.data + row * p.y.stride + 8 * group);
}

template <int kGroups, bool kAligned, typename T>
__global__ void __launch_bounds__(32 * kRowsPerBlock)
    NormWarpKernel(Operands<T> p) {
  WaitForEarlierKernels();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock +
                      static_cast<int>(threadIdx.x) / 32;
  if (row >= p.x.rows) return;
  const int64_t cols = p.x.cols;
  DropoutRow random = {};
  if (p.dropout.state != nullptr) random = RowOf(p.dropout, row);
  // mean
  float v[kGroups][8];
  float sum = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t group = lane + 32 * g;
    LoadSum<kAligned>(p, row, random, group, cols - 8 * group, v[g]);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[g][i];
  }
  const float mean = WarpSum(sum) / static_cast<float>(cols);
  // rstd
  float squares = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t count = cols - 8 * (lane + 32 * g);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float d = i < count ? v[g][i] - mean : 0.0f;
      squares += d * d;
    }
  }
  const float inverse =
      1.0f / sqrtf(WarpSum(squares) / static_cast<float>(cols) + p.epsilon);
  // normalise and write
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t group = lane + 32 * g;
    StoreNormalised<kAligned>(p, row, group, cols - 8 * group, mean, inverse,
                              v[g]);
  }
  if (lane == 0) p.inverse_deviation[row] = inverse;
}

// A block to a row of any width; the sums are computed again where they are
// needed.
template <bool kAligned, typename T>
__global__ void __launch_bounds__(256) NormBlockKernel(Operands<T> p) {
  WaitForEarlierKernels();
  const int64_t row = blockIdx.x, cols = p.x.cols;
  DropoutRow random = {};
  if (p.dropout.state != nullptr) random = RowOf(p.dropout, row);
  // mean
  float sum = 0, squares = 0;
  for (int64_t group = threadIdx.x; 8 * group < cols; group += blockDim.x) {
    float v[8];
    LoadSum<kAligned>(p, row, random, group, cols - 8 * group, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i];
  }
  const float mean = BlockSum(sum) / static_cast<float>(cols);
  // rstd
  for (int64_t group = threadIdx.x; 8 * group < cols; group += blockDim.x) {
    float v[8];
    LoadSum<kAligned>(p, row, random, group, cols - 8 * group, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float d = i < cols - 8 * group ? v[i] - mean : 0.0f;
      squares += d * d;
    }
  }
  const float inverse =
      1.0f / sqrtf(BlockSum(squares) / static_cast<float>(cols) + p.epsilon);
  // normalise and write
  for (int64_t group = threadIdx.x; 8 * group < cols; group += blockDim.x) {
    float v[8];
    LoadSum<kAligned>(p, row, random, group, cols - 8 * group, v);
    StoreNormalised<kAligned>(p, row, group, cols - 8 * group, mean, inverse,
                              v);
  }
  if (threadIdx.x == 0) p.inverse_deviation[row] = inverse;
}

template <bool kAligned, typename T>
absl::Status LaunchNorm(KernelStream stream, const Operands<T>& p) {
  constexpr char kOp[] = "ResidualLayerNorm";
  const LaunchShape warps = {Blocks(p.x.rows, kRowsPerBlock),
                             32 * kRowsPerBlock, 0, stream};
  switch ((p.x.cols + kGroupColumns - 1) / kGroupColumns) {
    case 1:
      return Launch(kOp, warps, NormWarpKernel<1, kAligned, T>, p);
    case 2:
      return Launch(kOp, warps, NormWarpKernel<2, kAligned, T>, p);
    case 3:
      return Launch(kOp, warps, NormWarpKernel<3, kAligned, T>, p);
    case kMostGroups:
      return Launch(kOp, warps, NormWarpKernel<kMostGroups, kAligned, T>, p);
    default:
      return Launch(kOp, {Blocks(p.x.rows, 1), 256, 0, stream},
                    NormBlockKernel<kAligned, T>, p);
  }
}

// y = dropout(normalised * gamma + beta), eight columns to a thread. A null
// beta is 0.
template <bool kAligned, typename T>
__global__ void __launch_bounds__(256)
    OutputKernel(DeviceDropout dropout, MatrixView<const T> normalised,
                 const float* gamma, const float* beta, MatrixView<T> y,
                 int64_t groups) {
  WaitForEarlierKernels();
  const int64_t total = y.rows * groups;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = Divide(at, groups), group = at - row * groups;
    const int64_t count = y.cols - 8 * group;
    float v[8], g[8], b[8] = {};
    LoadRun<kAligned>(normalised.data + row * normalised.stride + 8 * group,
                      count, v);
    LoadRun<kAligned>(gamma + 8 * group, count, g);
    if (beta != nullptr) LoadRun<kAligned>(beta + 8 * group, count, b);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = v[i] * g[i] + b[i];
    MaskRun(dropout, row, group, v);
    StoreRun<kAligned>(v, count, y.data + row * y.stride + 8 * group);
  }
}

// The operands have been checked.
template <typename T>
absl::Status Norm(KernelStream stream, const DropoutKey& key,
                  MatrixView<const T> x, MatrixView<const T> residual,
                  ConstVector gamma, ConstVector beta, float epsilon,
                  MatrixView<T> normalised, Vector inverse_deviation,
                  MatrixView<T> y) {
  if (x.cols == 0) return absl::OkStatus();
  const Operands<T> p = {MakeDeviceDropout(key),
                         x,
                         residual,
                         gamma.data,
                         beta.data,
                         epsilon,
                         normalised,
                         inverse_deviation.data,
                         y};
  const bool aligned = RowsAligned(x) && RowsAligned(normalised) &&
                       RowsAligned(y) && Aligned(gamma) && Aligned(beta) &&
                       (residual.data == nullptr || RowsAligned(residual));
  return aligned ? LaunchNorm<true>(stream, p) : LaunchNorm<false>(stream, p);
}

template <typename T>
absl::Status Output(KernelStream stream, const DropoutKey& key,
                    MatrixView<const T> normalised, ConstVector gamma,
                    ConstVector beta, MatrixView<T> y) {
  const int64_t groups = (y.cols + 7) / 8;
  if (y.rows == 0 || groups == 0) return absl::OkStatus();
  const LaunchShape shape = {
      Blocks(y.rows * groups, 256, 16 * Multiprocessors()), 256, 0, stream};
  const bool aligned = RowsAligned(normalised) && RowsAligned(y) &&
                       Aligned(gamma) && Aligned(beta);
  return Launch("LayerNormOutput", shape,
                aligned ? OutputKernel<true, T> : OutputKernel<false, T>,
                MakeDeviceDropout(key), normalised, gamma.data, beta.data, y,
                groups);
}

}  // namespace

absl::Status CudaBackend::ResidualLayerNorm(const DropoutKey& key,
                                            ConstMatrix x, ConstMatrix residual,
                                            ConstVector gamma, ConstVector beta,
                                            float epsilon, Matrix normalised,
                                            Vector inverse_deviation,
                                            Matrix y) {
  RETURN_IF_ERROR(CheckResidualLayerNorm(key, x, residual, gamma, beta,
                                         normalised, inverse_deviation, y));
  return Norm<float>(stream_, key, x, residual, gamma, beta, epsilon,
                     normalised, inverse_deviation, y);
}

absl::Status CudaBackend::ResidualLayerNormBf16(
    const DropoutKey& key, ConstBf16Matrix x, ConstBf16Matrix residual,
    ConstVector gamma, ConstVector beta, float epsilon, Bf16Matrix normalised,
    Vector inverse_deviation, Bf16Matrix y) {
  RETURN_IF_ERROR(CheckResidualLayerNorm(key, ShapeOf(x), ShapeOf(residual),
                                         gamma, beta, ShapeOf(normalised),
                                         inverse_deviation, ShapeOf(y)));
  return Norm<uint16_t>(stream_, key, x, residual, gamma, beta, epsilon,
                        normalised, inverse_deviation, y);
}

absl::Status CudaBackend::LayerNormOutput(const DropoutKey& key,
                                          ConstMatrix normalised,
                                          ConstVector gamma, ConstVector beta,
                                          Matrix y) {
  RETURN_IF_ERROR(CheckLayerNormOutput(key, normalised, gamma, beta, y));
  return Output<float>(stream_, key, normalised, gamma, beta, y);
}

absl::Status CudaBackend::LayerNormOutputBf16(const DropoutKey& key,
                                              ConstBf16Matrix normalised,
                                              ConstVector gamma,
                                              ConstVector beta, Bf16Matrix y) {
  RETURN_IF_ERROR(
      CheckLayerNormOutput(key, ShapeOf(normalised), gamma, beta, ShapeOf(y)));
  return Output<uint16_t>(stream_, key, normalised, gamma, beta, y);
}

}  // namespace comera::kernels
