// Formula: x = value, y += alpha x, x *= alpha, y += bias, grad_bias += column
// sums of grad_y, and out (a, c, b, d) = in (a, b, c, d).
// Shapes: vectors (n), matrices (rows, cols), and an array of four axes.
// Threads: one takes four neighbouring elements (device/map.h); a block takes
// 32 columns of a sum, or a tile of 32 by 32 of a transposition.
#include <cuda_runtime.h>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/column_sums.h"
#include "kernels/cuda/device/map.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/scale_matrix.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

struct FillOp {
  static constexpr bool kUsesColumn = false;
  float value;
  __device__ void Begin() {}
  __device__ float operator()(int64_t) const { return value; }
};

struct AxpyOp {
  static constexpr bool kUsesColumn = false;
  float alpha;
  __device__ void Begin() {}
  __device__ float operator()(float x, float y, int64_t) const {
    return y + alpha * x;
  }
};

struct ScaleOp {
  static constexpr bool kUsesColumn = false;
  float factor;
  __device__ void Begin() {}
  __device__ float operator()(float x, int64_t) const { return x * factor; }
};

struct ScaleByCountOp {
  static constexpr bool kUsesColumn = false;
  float alpha;
  const float* count;
  float factor;
  __device__ void Begin() { factor = alpha / fmaxf(1.0f, *count); }
  __device__ float operator()(float x, int64_t) const { return x * factor; }
};

struct AddBiasOp {
  static constexpr bool kUsesColumn = true;
  const float* bias;
  __device__ void Begin() {}
  __device__ float operator()(float y, int64_t column) const {
    return y + __ldg(bias + column);
  }
};

struct MatrixElement {
  ConstMatrix m;
  __device__ float operator()(int64_t row, int64_t column) const {
    return m.data[row * m.stride + column];
  }
};

Matrix AsMatrix(Vector x) { return Matrix(x.data, 1, x.size); }
ConstMatrix AsMatrix(ConstVector x) { return ConstMatrix(x.data, 1, x.size); }

// out (c, b) = in (b, c) transposed, for each of the matrices of grid.z, by
// tiles in shared memory.
constexpr int kTile = 32;
__global__ void __launch_bounds__(256)
    TransposeKernel(int64_t b, int64_t c, const float* in, float* out) {
  WaitForEarlierKernels();
  __shared__ float tile[kTile][kTile + 1];
  in += blockIdx.z * b * c;
  out += blockIdx.z * b * c;
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int i = threadIdx.y; i < kTile; i += 8) {
    if (row + i < b && column + threadIdx.x < c) {
      tile[i][threadIdx.x] = in[(row + i) * c + column + threadIdx.x];
    }
  }
  __syncthreads();
  for (int i = threadIdx.y; i < kTile; i += 8) {
    if (column + i < c && row + threadIdx.x < b) {
      out[(column + i) * b + row + threadIdx.x] = tile[threadIdx.x][i];
    }
  }
}

// Row (i, k, j) of out, of `runs` runs of kRun floats, is row (i, j, k) of in.
template <typename Run>
__global__ void __launch_bounds__(256)
    SwapRowsKernel(int64_t rows, int64_t b, int64_t c, int64_t runs,
                   const Run* in, Run* out) {
  WaitForEarlierKernels();
  const int64_t total = rows * runs;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = Divide(at, runs);
    const int64_t ik = Divide(row, b), j = row - ik * b;
    const int64_t i = Divide(ik, c), k = ik - i * c;
    out[at] = in[((i * b + j) * c + k) * runs + (at - row * runs)];
  }
}

}  // namespace

absl::Status ScaleMatrix(KernelStream stream, float factor, Matrix c) {
  if (factor == 0) return Map<0>("ScaleMatrix", stream, {}, c, FillOp{0.0f});
  return Map<1>("ScaleMatrix", stream, {{c}}, c, ScaleOp{factor});
}

absl::Status CudaBackend::Fill(Vector x, float value) {
  RETURN_IF_ERROR(CheckMemory("Fill", "x", x.data, x.size));
  if (together_depth_ > 0) {
    together_.AddFill(x, value);
    return absl::OkStatus();
  }
  return Map<0>("Fill", stream_, {}, AsMatrix(x), FillOp{value});
}

absl::Status CudaBackend::Axpy(float alpha, ConstVector x, Vector y) {
  RETURN_IF_ERROR(CheckVector("Axpy", "x", x, y.size));
  RETURN_IF_ERROR(CheckMemory("Axpy", "y", y.data, y.size));
  if (together_depth_ > 0) {
    together_.AddAxpy(alpha, x, y);
    return absl::OkStatus();
  }
  return Map<2>("Axpy", stream_, {{AsMatrix(x), AsMatrix(y)}}, AsMatrix(y),
                AxpyOp{alpha});
}

absl::Status CudaBackend::Scale(float alpha, Vector x) {
  RETURN_IF_ERROR(CheckMemory("Scale", "x", x.data, x.size));
  return Map<1>("Scale", stream_, {{AsMatrix(x)}}, AsMatrix(x), ScaleOp{alpha});
}

absl::Status CudaBackend::ScaleByCount(float alpha, const float* count,
                                       Vector x) {
  RETURN_IF_ERROR(CheckMemory("ScaleByCount", "count", count, 1));
  RETURN_IF_ERROR(CheckMemory("ScaleByCount", "x", x.data, x.size));
  return Map<1>("ScaleByCount", stream_, {{AsMatrix(x)}}, AsMatrix(x),
                ScaleByCountOp{alpha, count, 0});
}

absl::Status CudaBackend::AddBias(ConstVector bias, Matrix y) {
  RETURN_IF_ERROR(CheckMatrix("AddBias", "y", y));
  RETURN_IF_ERROR(CheckVector("AddBias", "bias", bias, y.cols));
  return Map<1>("AddBias", stream_, {{y}}, y, AddBiasOp{bias.data});
}

absl::Status CudaBackend::BiasGradient(ConstMatrix grad_y, Vector grad_bias) {
  RETURN_IF_ERROR(CheckMatrix("BiasGradient", "grad_y", grad_y));
  RETURN_IF_ERROR(
      CheckVector("BiasGradient", "grad_bias", grad_bias, grad_y.cols));
  ASSIGN_OR_RETURN(float* const scratch,
                   Scratch<float>(ColumnSumFloats(grad_y.rows, grad_y.cols)));
  return AddColumnSums("BiasGradient", stream_, grad_y.rows, grad_y.cols,
                       MatrixElement{grad_y}, scratch, grad_bias.data);
}

absl::Status CudaBackend::SwapMiddleAxes(int64_t a, int64_t b, int64_t c,
                                         int64_t d, const float* in,
                                         float* out) {
  if (a < 0 || b < 0 || c < 0 || d < 0) {
    return absl::InvalidArgumentError("SwapMiddleAxes: negative size");
  }
  const int64_t size = a * b * c * d;
  RETURN_IF_ERROR(CheckMemory("SwapMiddleAxes", "in", in, size));
  RETURN_IF_ERROR(CheckMemory("SwapMiddleAxes", "out", out, size));
  if (size == 0) return absl::OkStatus();
  constexpr int64_t kMostOfAxis = 65535;  // the limit of grid.y and grid.z
  const int64_t row_tiles = (b + kTile - 1) / kTile;
  if (d == 1 && row_tiles <= kMostOfAxis) {
    for (int64_t i = 0; i < a; i += kMostOfAxis) {
      const dim3 grid(Blocks(c, kTile), static_cast<unsigned>(row_tiles),
                      static_cast<unsigned>(std::min(kMostOfAxis, a - i)));
      RETURN_IF_ERROR(Launch("SwapMiddleAxes", Shape(grid, dim3(kTile, 8)),
                             TransposeKernel, b, c, in + i * b * c,
                             out + i * b * c));
    }
    return absl::OkStatus();
  }
  const ConstMatrix from(in, 1, size);
  if (d % 4 == 0 && RowsAligned(from) && RowsAligned(Matrix(out, 1, size))) {
    return Launch("SwapMiddleAxes",
                  Shape(Blocks(size / 4, 256, 16 * Multiprocessors()), 256),
                  SwapRowsKernel<float4>, a * b * c, b, c, d / 4,
                  reinterpret_cast<const float4*>(in),
                  reinterpret_cast<float4*>(out));
  }
  return Launch("SwapMiddleAxes",
                Shape(Blocks(size, 256, 16 * Multiprocessors()), 256),
                SwapRowsKernel<float>, a * b * c, b, c, d, in, out);
}

}  // namespace comera::kernels
