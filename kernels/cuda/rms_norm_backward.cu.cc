// Formula: with g = grad_y * gamma, grad_x += (g - normalised * mean(g *
// normalised)) * rstd; grad_gamma += sum of grad_y * normalised over rows.
// Shapes: grad_y, normalised, grad_x (rows, cols); gamma, grad_gamma (cols);
// inverse_deviation, which is rstd, (rows).
// Threads: a block takes a run of rows, a thread eight columns of each and
// their part of the sums over rows; a block takes one row of over 4096 columns.
#include <cuda_runtime.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/column_sums.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

// Columns that a block holds in registers, eight to a thread.
constexpr int64_t kMostThreads = 512;
constexpr int64_t kMostColumns = 8 * kMostThreads;
constexpr int64_t kMostBlocks = 8 * kSumMultiprocessors;

struct Operands {
  ConstMatrix grad_y, normalised;
  const float *inverse_deviation, *gamma;
  Matrix grad_x;
};

// With g = grad_y * gamma: adds (g - normalised * mean(g * normalised)) times
// the inverse deviation to the gradient of eight columns.
template <bool kAligned>
__device__ __forceinline__ void AddGradient(const Operands& p, int64_t row,
                                            int64_t group, float mean_product,
                                            const float (&g)[8],
                                            const float (&normalised)[8]) {
  const float inverse = p.inverse_deviation[row];
  const int64_t count = p.grad_x.cols - 8 * group;
  float* const to = p.grad_x.data + row * p.grad_x.stride + 8 * group;
  float grad[8];
  LoadRun<kAligned>(to, count, grad);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    grad[i] += (g[i] - normalised[i] * mean_product) * inverse;
  }
  StoreRun<kAligned>(grad, count, to);
}

// A block takes a run of rows, one after the other, and keeps its part of the
// sums over rows in registers, which it leaves in row blockIdx.x of `partial`.
template <bool kAligned>
__global__ void __launch_bounds__(kMostThreads)
    BackwardRowsKernel(Operands p, float* partial) {
  WaitForEarlierKernels();
  __shared__ float sums[2][kMostThreads / 32];
  const int64_t rows = p.grad_y.rows, cols = p.grad_y.cols;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int64_t group = threadIdx.x, count = cols - 8 * group;
  float gamma[8], gamma_sum[8] = {};
  LoadRun<kAligned>(p.gamma + 8 * group, count, gamma);
  const int64_t last = rows * (blockIdx.x + 1) / gridDim.x;
  for (int64_t row = rows * blockIdx.x / gridDim.x; row < last; ++row) {
    // load
    float g[8], normalised[8];
    LoadRun<kAligned>(p.grad_y.data + row * p.grad_y.stride + 8 * group, count,
                      g);
    LoadRun<kAligned>(p.normalised.data + row * p.normalised.stride + 8 * group,
                      count, normalised);
    // sums over rows, and the mean over columns
    float product = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      gamma_sum[i] += g[i] * normalised[i];
      g[i] *= gamma[i];
      product += g[i] * normalised[i];
    }
    product = WarpSum(product);
    // Two rows' sums in turn, so that one barrier a row is enough.
    float(&row_sums)[kMostThreads / 32] = sums[row % 2];
    if (lane == 0) row_sums[warp] = product;
    __syncthreads();
    product = 0;
    for (int w = 0; w < warps; ++w) product += row_sums[w];
    // gradient
    AddGradient<kAligned>(p, row, group, product / static_cast<float>(cols), g,
                          normalised);
  }
  // leave the sums over rows
  StoreRun<false>(gamma_sum, count, partial + cols * blockIdx.x + 8 * group);
}

// A block to a row of any width, without the sums over rows.
__global__ void __launch_bounds__(256) BackwardWideKernel(Operands p) {
  WaitForEarlierKernels();
  const int64_t row = blockIdx.x, cols = p.grad_y.cols;
  const float* const grad_y = p.grad_y.data + row * p.grad_y.stride;
  const float* const normalised = p.normalised.data + row * p.normalised.stride;
  // mean
  float product = 0;
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    product += grad_y[i] * p.gamma[i] * normalised[i];
  }
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
    AddGradient<false>(p, row, group, product, g, n);
  }
}

struct GammaElement {
  ConstMatrix grad_y, normalised;
  __device__ float operator()(int64_t row, int64_t column) const {
    return grad_y.data[row * grad_y.stride + column] *
           normalised.data[row * normalised.stride + column];
  }
};

}  // namespace

absl::Status CudaBackend::RmsNormBackward(ConstMatrix grad_y,
                                          ConstMatrix normalised,
                                          ConstVector inverse_deviation,
                                          ConstVector gamma, Matrix grad_x,
                                          Vector grad_gamma) {
  constexpr char kOp[] = "RmsNormBackward";
  RETURN_IF_ERROR(CheckRmsNormBackward(grad_y, normalised, inverse_deviation,
                                       gamma, grad_x, grad_gamma));
  const int64_t rows = grad_y.rows, cols = grad_y.cols;
  if (rows == 0 || cols == 0) return absl::OkStatus();

  const Operands p = {grad_y, normalised, inverse_deviation.data, gamma.data,
                      grad_x};
  if (cols > kMostColumns) {
    ASSIGN_OR_RETURN(float* const partial,
                     Scratch<float>(ColumnSumFloats(rows, cols)));
    RETURN_IF_ERROR(AddColumnSums(kOp, stream_, rows, cols,
                                  GammaElement{grad_y, normalised}, partial,
                                  grad_gamma.data));
    return Launch(kOp, Shape(Blocks(rows, 1), 256), BackwardWideKernel, p);
  }
  const int64_t room = kMostScratchBytes / (cols * int64_t{sizeof(float)});
  const int64_t blocks = std::min({(rows + 7) / 8, kMostBlocks, room});
  ASSIGN_OR_RETURN(float* const partial, Scratch<float>(blocks * cols));
  const unsigned threads = 32 * Blocks(cols, 8 * 32);
  const bool aligned = RowsAligned(grad_y) && RowsAligned(normalised) &&
                       RowsAligned(grad_x) && Aligned(gamma);
  RETURN_IF_ERROR(
      Launch(kOp, Shape(static_cast<unsigned>(blocks), threads),
             aligned ? BackwardRowsKernel<true> : BackwardRowsKernel<false>, p,
             partial));
  return AddPartialRows(kOp, stream_, partial, blocks, cols, cols,
                        grad_gamma.data);
}

}  // namespace comera::kernels
