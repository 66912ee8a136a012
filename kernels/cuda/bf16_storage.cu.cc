// Formula: y = x, rounded to bfloat16 or widened; y = f(x) and grad_x = grad_y
// f'(saved) of matrices that lie in memory as bfloat16, computed in float32.
// Shapes: all matrices (rows, cols), with row strides of their own.
// Threads: one takes eight neighbouring columns at a time, in strides of the
// grid; matrices without gaps are taken as one row.
#include <cuda_runtime.h>

#include <cstdint>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/activations.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRun = 8;  // columns of a thread: 16 bytes of bfloat16

struct SameOp {
  __device__ float operator()(float x, float) const { return x; }
};
template <typename F>
struct ValueOp {
  __device__ float operator()(float x, float) const { return F::Value(x); }
};
template <typename F>
struct BackwardOp {
  __device__ float operator()(float saved, float grad) const {
    return grad * F::Slope(saved);
  }
};

// out = op(x, y); y is not read where its data is null. out may be x or y.
template <bool kAligned, typename X, typename Out, typename Op>
__global__ void __launch_bounds__(kThreads)
    Bf16MapKernel(MatrixView<const X> x, ConstBf16Matrix y, MatrixView<Out> out,
                  int64_t runs, Op op) {
  WaitForEarlierKernels();
  const int64_t total = out.rows * runs;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < total;
       at += step) {
    const int64_t row = out.rows == 1 ? 0 : Divide(at, runs);
    const int64_t column = kRun * (at - row * runs);
    const int64_t count = out.cols - column;
    float a[kRun], b[kRun] = {};
    LoadRun<kAligned>(x.data + row * x.stride + column, count, a);
    if (y.data != nullptr) {
      LoadRun<kAligned>(y.data + row * y.stride + column, count, b);
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) a[i] = op(a[i], b[i]);
    StoreRun<kAligned>(a, count, out.data + row * out.stride + column);
  }
}

template <typename X, typename Out, typename Op>
absl::Status Bf16Map(const char* name, KernelStream stream,
                     MatrixView<const X> x, ConstBf16Matrix y,
                     MatrixView<Out> out, Op op) {
  if (out.rows == 0 || out.cols == 0) return absl::OkStatus();
  if (x.stride == out.cols && out.stride == out.cols &&
      (y.data == nullptr || y.stride == out.cols)) {
    const int64_t size = out.rows * out.cols;
    x = MatrixView<const X>(x.data, 1, size);
    y = ConstBf16Matrix(y.data, 1, size);
    out = MatrixView<Out>(out.data, 1, size);
  }
  const int64_t runs = (out.cols + kRun - 1) / kRun;
  const LaunchShape shape = {
      Blocks(out.rows * runs, kThreads, 16 * Multiprocessors()), kThreads, 0,
      stream};
  return RowsAligned(x) && RowsAligned(y) && RowsAligned(out)
             ? Launch(name, shape, Bf16MapKernel<true, X, Out, Op>, x, y, out,
                      runs, op)
             : Launch(name, shape, Bf16MapKernel<false, X, Out, Op>, x, y, out,
                      runs, op);
}

}  // namespace

absl::Status CudaBackend::Round(ConstMatrix x, Bf16Matrix y) {
  constexpr char kOp[] = "Round";
  RETURN_IF_ERROR(CheckMatrix(kOp, "x", x));
  RETURN_IF_ERROR(CheckBf16(kOp, "y", y, x.rows, x.cols));
  if (together_depth_ > 0) {
    together_.AddRound(x, y);
    return absl::OkStatus();
  }
  return Bf16Map<float>(kOp, stream_, x, {}, y, SameOp());
}

absl::Status CudaBackend::Widen(ConstBf16Matrix x, Matrix y) {
  constexpr char kOp[] = "Widen";
  RETURN_IF_ERROR(CheckBf16(kOp, "x", x));
  RETURN_IF_ERROR(CheckMatrix(kOp, "y", y, x.rows, x.cols));
  return Bf16Map<uint16_t>(kOp, stream_, x, {}, y, SameOp());
}

absl::Status CudaBackend::ActivateBf16(Activation f, ConstBf16Matrix x,
                                       Bf16Matrix y) {
  constexpr char kOp[] = "ActivateBf16";
  RETURN_IF_ERROR(CheckBf16(kOp, "x", x));
  RETURN_IF_ERROR(CheckBf16(kOp, "y", y, x.rows, x.cols));
  return SwitchActivation(kOp, f, [&](auto function) {
    return Bf16Map<uint16_t>(kOp, stream_, x, {}, y,
                             ValueOp<decltype(function)>());
  });
}

absl::Status CudaBackend::ActivateBackwardBf16(Activation f,
                                               ConstBf16Matrix saved,
                                               ConstBf16Matrix grad_y,
                                               Bf16Matrix grad_x) {
  constexpr char kOp[] = "ActivateBackwardBf16";
  RETURN_IF_ERROR(CheckBf16(kOp, "saved", saved));
  RETURN_IF_ERROR(CheckBf16(kOp, "grad_y", grad_y, saved.rows, saved.cols));
  RETURN_IF_ERROR(CheckBf16(kOp, "grad_x", grad_x, saved.rows, saved.cols));
  return SwitchActivation(kOp, f, [&](auto function) {
    return Bf16Map<uint16_t>(kOp, stream_, saved, grad_y, grad_x,
                             BackwardOp<decltype(function)>());
  });
}

}  // namespace comera::kernels
