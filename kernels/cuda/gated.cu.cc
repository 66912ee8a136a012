// Formula: y = f(gate) up; backward, grad_gate = grad_y up f'(gate) and grad_up
// = grad_y f(gate).
// Shapes: all matrices (rows, cols), with row strides of their own.
// Threads: one takes four neighbouring columns at a time, in strides of the
// grid; matrices without gaps are taken as one row.
#include <cuda_runtime.h>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/activations.h"
#include "kernels/cuda/device/map.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

template <typename F>
struct GatedOp {
  static constexpr bool kUsesColumn = false;
  __device__ void Begin() {}
  __device__ float operator()(float gate, float up, int64_t) const {
    return F::Value(gate) * up;
  }
};

// Operands of the backward pass, all of one shape.
struct Operands {
  ConstMatrix gate, up, grad_y;
  Matrix grad_gate, grad_up;
};

template <bool kAligned, typename F>
__global__ void __launch_bounds__(256)
    BackwardKernel(Operands p, int64_t runs, F) {
  WaitForEarlierKernels();
  const int64_t rows = p.gate.rows, cols = p.gate.cols, total = rows * runs;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = rows == 1 ? 0 : Divide(at, runs);
    const int64_t column = 4 * (at - row * runs), count = cols - column;
    // load
    float gate[4], up[4], grad[4];
    LoadRun<kAligned>(p.gate.data + row * p.gate.stride + column, count, gate);
    LoadRun<kAligned>(p.up.data + row * p.up.stride + column, count, up);
    LoadRun<kAligned>(p.grad_y.data + row * p.grad_y.stride + column, count,
                      grad);
    // gradients, in the place of what they are computed from
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = F::Value(gate[i]), slope = F::Slope(gate[i]);
      gate[i] = grad[i] * up[i] * slope;
      up[i] = grad[i] * value;
    }
    // store
    StoreRun<kAligned>(gate, count,
                       p.grad_gate.data + row * p.grad_gate.stride + column);
    StoreRun<kAligned>(up, count,
                       p.grad_up.data + row * p.grad_up.stride + column);
  }
}

// Matrices without gaps, as one row each.
Operands AsOneRow(const Operands& p) {
  const int64_t size = p.gate.rows * p.gate.cols;
  return {ConstMatrix(p.gate.data, 1, size), ConstMatrix(p.up.data, 1, size),
          ConstMatrix(p.grad_y.data, 1, size),
          Matrix(p.grad_gate.data, 1, size), Matrix(p.grad_up.data, 1, size)};
}

}  // namespace

absl::Status CudaBackend::Gated(Activation f, ConstMatrix gate, ConstMatrix up,
                                Matrix y) {
  constexpr char kOp[] = "Gated";
  RETURN_IF_ERROR(CheckSameShape(kOp, {"gate", gate}, {{"up", up}, {"y", y}}));
  return SwitchActivation(kOp, f, [&](auto function) {
    return Map<2>(kOp, stream_, {{gate, up}}, y, GatedOp<decltype(function)>());
  });
}

absl::Status CudaBackend::GatedBackward(Activation f, ConstMatrix gate,
                                        ConstMatrix up, ConstMatrix grad_y,
                                        Matrix grad_gate, Matrix grad_up) {
  constexpr char kOp[] = "GatedBackward";
  RETURN_IF_ERROR(CheckGatedBackward(f, gate, up, grad_y, grad_gate, grad_up));
  if (gate.rows == 0 || gate.cols == 0) return absl::OkStatus();
  Operands p = {gate, up, grad_y, grad_gate, grad_up};
  bool flat = true;
  for (const ConstMatrix& m :
       {gate, up, grad_y, ConstMatrix(grad_gate), ConstMatrix(grad_up)}) {
    flat = flat && m.stride == m.cols;
  }
  if (flat) p = AsOneRow(p);
  const bool aligned = RowsAligned(p.gate) && RowsAligned(p.up) &&
                       RowsAligned(p.grad_y) && RowsAligned(p.grad_gate) &&
                       RowsAligned(p.grad_up);
  const int64_t runs = (p.gate.cols + 3) / 4;
  const LaunchShape shape =
      Shape(Blocks(p.gate.rows * runs, 256, 16 * Multiprocessors()), 256);
  return SwitchActivation(kOp, f, [&](auto function) {
    using Function = decltype(function);
    return aligned ? Launch(kOp, shape, BackwardKernel<true, Function>, p, runs,
                            function)
                   : Launch(kOp, shape, BackwardKernel<false, Function>, p,
                            runs, function);
  });
}

}  // namespace comera::kernels
