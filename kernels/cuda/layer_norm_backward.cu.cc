// Formula: with g = grad_y * gamma, grad_residual = (g - mean(g) - normalised *
// mean(g * normalised)) * rstd and grad_x = mask * grad_residual; grad_gamma +=
// sum of grad_y * normalised over rows, grad_beta += sum of grad_y.
// Shapes: grad_y, normalised, grad_x, grad_residual (rows, cols); gamma,
// grad_gamma, grad_beta (cols); inverse_deviation, which is rstd, (rows).
// Threads: a block takes a run of rows, a thread eight columns of each and
// their part of the sums over rows; a block takes one row of over 4096 columns.
#include <cuda_runtime.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/column_sums.h"
#include "kernels/cuda/device/dropout.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/sum_parts.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Columns that a block holds in registers, eight to a thread.
constexpr int64_t kMostThreads = 512;
constexpr int64_t kMostColumns = 8 * kMostThreads;
constexpr int64_t kMostBlocks = 8 * kSumMultiprocessors;

template <typename T>
struct Operands {
  DeviceDropout dropout;
  MatrixView<const T> grad_y, normalised;
  const float *inverse_deviation, *gamma;
  MatrixView<T> grad_x, grad_residual;
};

// With g = grad_y * gamma: (g - mean(g) - normalised * mean(g * normalised))
// times the inverse deviation, of eight columns.
template <bool kAligned, typename T>
__device__ __forceinline__ void StoreGradient(const Operands<T>& p, int64_t row,
                                              int64_t group, int64_t count,
                                              float mean, float mean_product,
                                              const float (&g)[8],
                                              const float (&normalised)[8]) {
  const float inverse = p.inverse_deviation[row];
  float grad[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    grad[i] = (g[i] - mean - normalised[i] * mean_product) * inverse;
  }
  if (p.grad_residual.data != nullptr) {
    StoreRun<kAligned>(
        grad, count,
        p.grad_residual.data + row * p.grad_residual.stride + 8 * group);
  }
  if (p.grad_x.data != nullptr) {
    if (count > 0) MaskRun(p.dropout, row, group, grad);
    StoreRun<kAligned>(grad, count,
                       p.grad_x.data + row * p.grad_x.stride + 8 * group);
  }
}

// A block takes a run of rows, one after the other, and keeps its part of the
// sums over rows in registers. partial[blockIdx.x] = {of gamma, of beta}.
template <bool kAligned, typename T>
__global__ void __launch_bounds__(kMostThreads)
    BackwardRowsKernel(Operands<T> p, float* partial) {
  WaitForEarlierKernels();
  __shared__ float2 sums[2][kMostThreads / 32];
  const int64_t rows = p.grad_y.rows, cols = p.grad_y.cols;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int64_t group = threadIdx.x, count = cols - 8 * group;
  float gamma[8], gamma_sum[8] = {}, beta_sum[8] = {};
  LoadRun<kAligned>(p.gamma + 8 * group, count, gamma);
  const int64_t last = rows * (blockIdx.x + 1) / gridDim.x;
  for (int64_t row = rows * blockIdx.x / gridDim.x; row < last; ++row) {
    // load
    float g[8], normalised[8];
    LoadRun<kAligned>(p.grad_y.data + row * p.grad_y.stride + 8 * group, count,
                      g);
    LoadRun<kAligned>(p.normalised.data + row * p.normalised.stride + 8 * group,
                      count, normalised);
    // sums over rows, and the means over columns
    float sum = 0, product = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      gamma_sum[i] += g[i] * normalised[i];
      beta_sum[i] += g[i];
      g[i] *= gamma[i];
      sum += g[i];
      product += g[i] * normalised[i];
    }
    sum = WarpSum(sum);
    product = WarpSum(product);
    // Two rows' sums in turn, so that one barrier a row is enough.
    float2(&row_sums)[kMostThreads / 32] = sums[row % 2];
    if (lane == 0) row_sums[warp] = make_float2(sum, product);
    __syncthreads();
    sum = product = 0;
    for (int w = 0; w < warps; ++w) {
      sum += row_sums[w].x;
      product += row_sums[w].y;
    }
    // gradient
    StoreGradient<kAligned>(p, row, group, count,
                            sum / static_cast<float>(cols),
                            product / static_cast<float>(cols), g, normalised);
  }
  // leave the sums over rows
  float* const to = partial + 2 * cols * blockIdx.x + 8 * group;
  StoreRun<false>(gamma_sum, count, to);
  StoreRun<false>(beta_sum, count, to + cols);
}

// A block to a row of any width, without the sums over rows.
template <typename T>
__global__ void __launch_bounds__(256) BackwardWideKernel(Operands<T> p) {
  WaitForEarlierKernels();
  const int64_t row = blockIdx.x, cols = p.grad_y.cols;
  const T* const grad_y = p.grad_y.data + row * p.grad_y.stride;
  const T* const normalised = p.normalised.data + row * p.normalised.stride;
  // means
  float sum = 0, product = 0;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float g = ToFloat(grad_y[i]) * p.gamma[i];
    sum += g;
    product += g * ToFloat(normalised[i]);
  }
  sum = BlockSum(sum) / static_cast<float>(cols);
  product = BlockSum(product) / static_cast<float>(cols);
  // gradient
  for (int64_t group = threadIdx.x; 8 * group < cols; group += blockDim.x) {
    const int64_t count = cols - 8 * group;
    float g[8], gamma[8], n[8];
    LoadRun<false>(grad_y + 8 * group, count, g);
    LoadRun<false>(p.gamma + 8 * group, count, gamma);
    LoadRun<false>(normalised + 8 * group, count, n);
#pragma unroll
    for (int i = 0; i < 8; ++i) g[i] *= gamma[i];
    StoreGradient<false>(p, row, group, count, sum, product, g, n);
  }
}

template <typename T>
struct GammaElement {
  MatrixView<const T> grad_y, normalised;
  __device__ float operator()(int64_t row, int64_t column) const {
    return ToFloat(grad_y.data[row * grad_y.stride + column]) *
           ToFloat(normalised.data[row * normalised.stride + column]);
  }
};
template <typename T>
struct BetaElement {
  MatrixView<const T> grad_y;
  __device__ float operator()(int64_t row, int64_t column) const {
    return ToFloat(grad_y.data[row * grad_y.stride + column]);
  }
};

template <typename T>
bool AllAligned(const Operands<T>& p) {
  return RowsAligned(p.grad_y) && RowsAligned(p.normalised) &&
         reinterpret_cast<uintptr_t>(p.gamma) % 16 == 0 &&
         (p.grad_x.data == nullptr || RowsAligned(p.grad_x)) &&
         (p.grad_residual.data == nullptr || RowsAligned(p.grad_residual));
}

// Blocks of threads of BackwardRowsKernel.
int64_t RowBlocks(int64_t rows, int64_t cols) {
  const int64_t room = kMostScratchBytes / (2 * cols * int64_t{sizeof(float)});
  return std::min({(rows + 7) / 8, kMostBlocks, room});
}

// The floats of scratch memory that Backward needs.
int64_t PartialFloats(int64_t rows, int64_t cols) {
  if (rows == 0 || cols == 0) return 0;
  return cols > kMostColumns ? ColumnSumFloats(rows, cols)
                             : RowBlocks(rows, cols) * 2 * cols;
}

// The operands have been checked; `partial` has PartialFloats.
template <typename T>
absl::Status Backward(KernelStream stream, const Operands<T>& p, float* partial,
                      Vector grad_gamma, Vector grad_beta) {
  constexpr char kOp[] = "ResidualLayerNormBackward";
  const int64_t rows = p.grad_y.rows, cols = p.grad_y.cols;
  if (rows == 0 || cols == 0) return absl::OkStatus();
  if (cols > kMostColumns) {
    // The sums first: what follows may overwrite grad_y.
    RETURN_IF_ERROR(AddColumnSums(kOp, stream, rows, cols,
                                  GammaElement<T>{p.grad_y, p.normalised},
                                  partial, grad_gamma.data));
    RETURN_IF_ERROR(AddColumnSums(kOp, stream, rows, cols,
                                  BetaElement<T>{p.grad_y}, partial,
                                  grad_beta.data));
    return Launch(kOp, {Blocks(rows, 1), 256, 0, stream}, BackwardWideKernel<T>,
                  p);
  }
  const int64_t blocks = RowBlocks(rows, cols);
  const unsigned threads = 32 * Blocks(cols, 8 * 32);
  RETURN_IF_ERROR(Launch(kOp,
                         {static_cast<unsigned>(blocks), threads, 0, stream},
                         AllAligned(p) ? BackwardRowsKernel<true, T>
                                       : BackwardRowsKernel<false, T>,
                         p, partial));
  return SumParts(stream, {{partial, blocks, 2 * cols, true,
                            Matrix(grad_gamma.data, 1, cols)},
                           {partial + cols, blocks, 2 * cols, true,
                            Matrix(grad_beta.data, 1, cols)}});
}

}  // namespace

absl::Status CudaBackend::ResidualLayerNormBackward(
    const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
    ConstVector inverse_deviation, ConstVector gamma, Matrix grad_x,
    Matrix grad_residual, Vector grad_gamma, Vector grad_beta) {
  RETURN_IF_ERROR(CheckResidualLayerNormBackward(
      key, grad_y, normalised, inverse_deviation, gamma, grad_x, grad_residual,
      grad_gamma, grad_beta));
  ASSIGN_OR_RETURN(float* const partial,
                   Scratch<float>(PartialFloats(grad_y.rows, grad_y.cols)));
  return Backward<float>(
      stream_,
      {MakeDeviceDropout(key), grad_y, normalised, inverse_deviation.data,
       gamma.data, grad_x, grad_residual},
      partial, grad_gamma, grad_beta);
}

absl::Status CudaBackend::ResidualLayerNormBackwardBf16(
    const DropoutKey& key, ConstBf16Matrix grad_y, ConstBf16Matrix normalised,
    ConstVector inverse_deviation, ConstVector gamma, Bf16Matrix grad_x,
    Bf16Matrix grad_residual, Vector grad_gamma, Vector grad_beta) {
  RETURN_IF_ERROR(CheckResidualLayerNormBackward(
      key, ShapeOf(grad_y), ShapeOf(normalised), inverse_deviation, gamma,
      ShapeOf(grad_x), ShapeOf(grad_residual), grad_gamma, grad_beta));
  ASSIGN_OR_RETURN(float* const partial,
                   Scratch<float>(PartialFloats(grad_y.rows, grad_y.cols)));
  return Backward<uint16_t>(
      stream_,
      {MakeDeviceDropout(key), grad_y, normalised, inverse_deviation.data,
       gamma.data, grad_x, grad_residual},
      partial, grad_gamma, grad_beta);
}

}  // namespace comera::kernels
