// Formula: y = f(x), grad_x = grad_y f'(saved), and y = dropout(x).
// Shapes: all matrices (rows, cols), with row strides of their own.
// Threads: one takes four neighbouring columns of an activation
// (device/map.h), or the eight columns of one random draw of a dropout.
#include <cuda_runtime.h>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/activations.h"
#include "kernels/cuda/device/dropout.h"
#include "kernels/cuda/device/map.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

template <typename F>
struct ValueOp {
  static constexpr bool kUsesColumn = false;
  __device__ void Begin() {}
  __device__ float operator()(float x, int64_t) const { return F::Value(x); }
};
template <typename F>
struct BackwardOp {
  static constexpr bool kUsesColumn = false;
  __device__ void Begin() {}
  __device__ float operator()(float saved, float grad, int64_t) const {
    return grad * F::Slope(saved);
  }
};

// A thread takes the eight columns of one random draw.
template <bool kAligned>
__global__ void __launch_bounds__(256)
    DropoutKernel(DeviceDropout dropout, ConstMatrix x, Matrix y,
                  int64_t groups) {
  WaitForEarlierKernels();
  const int64_t total = x.rows * groups;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = Divide(at, groups), group = at - row * groups;
    const int64_t count = x.cols - 8 * group;
    // load
    float values[8], scales[8];
    LoadRun<kAligned>(x.data + row * x.stride + 8 * group, count, values);
    // mask
    DropoutScales(dropout, RowOf(dropout, row), static_cast<uint32_t>(group),
                  scales);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= scales[i];
    // store
    StoreRun<kAligned>(values, count, y.data + row * y.stride + 8 * group);
  }
}

}  // namespace

absl::Status CudaBackend::Activate(Activation f, ConstMatrix x, Matrix y) {
  constexpr char kOp[] = "Activate";
  RETURN_IF_ERROR(CheckMatrix(kOp, "x", x));
  RETURN_IF_ERROR(CheckMatrix(kOp, "y", y, x.rows, x.cols));
  return SwitchActivation(kOp, f, [&](auto function) {
    return Map<1>(kOp, stream_, {{x}}, y, ValueOp<decltype(function)>());
  });
}

absl::Status CudaBackend::ActivateBackward(Activation f, ConstMatrix saved,
                                           ConstMatrix grad_y, Matrix grad_x) {
  constexpr char kOp[] = "ActivateBackward";
  RETURN_IF_ERROR(CheckMatrix(kOp, "saved", saved));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_y", grad_y, saved.rows, saved.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_x", grad_x, saved.rows, saved.cols));
  const MapInputs<2> in = {{saved, grad_y}};
  return SwitchActivation(kOp, f, [&](auto function) {
    return Map<2>(kOp, stream_, in, grad_x, BackwardOp<decltype(function)>());
  });
}

absl::Status CudaBackend::Dropout(const DropoutKey& key, ConstMatrix x,
                                  Matrix y) {
  RETURN_IF_ERROR(CheckDropout("Dropout", key));
  RETURN_IF_ERROR(CheckMatrix("Dropout", "x", x));
  RETURN_IF_ERROR(CheckMatrix("Dropout", "y", y, x.rows, x.cols));
  if (key.rate == 0) {
    if (x.data == y.data && x.stride == y.stride) return absl::OkStatus();
    return CopyRows(x, y);
  }
  const int64_t groups = (x.cols + 7) / 8;
  if (x.rows == 0 || groups == 0) return absl::OkStatus();
  const LaunchShape shape =
      Shape(Blocks(x.rows * groups, 256, 16 * Multiprocessors()), 256);
  const DeviceDropout dropout = MakeDeviceDropout(key);
  return RowsAligned(x) && RowsAligned(y)
             ? Launch("Dropout", shape, DropoutKernel<true>, dropout, x, y,
                      groups)
             : Launch("Dropout", shape, DropoutKernel<false>, dropout, x, y,
                      groups);
}

}  // namespace comera::kernels
