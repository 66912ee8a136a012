// Formula: out[i, j] = op(inputs at (i, j), j), element by element.
// Shapes: inputs and out (rows, cols), with row strides of their own.
// Threads: one takes four neighbouring columns at a time, in strides of the
// grid; matrices without gaps are taken as one row.
#ifndef COMERA_KERNELS_CUDA_DEVICE_MAP_H_
#define COMERA_KERNELS_CUDA_DEVICE_MAP_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace comera::kernels {

template <int kInputs>
struct MapInputs {
  ConstMatrix m[kInputs == 0 ? 1 : kInputs];
};

// Begin() is called once per thread, before the first element.
template <bool kAligned, int kInputs, typename Op>
__global__ void __launch_bounds__(256)
    MapKernel(MapInputs<kInputs> in, Matrix out, int64_t runs, Op op) {
  WaitForEarlierKernels();
  op.Begin();
  const int64_t total = out.rows * runs;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = out.rows == 1 ? 0 : Divide(at, runs);
    const int64_t column = 4 * (at - row * runs);
    const int64_t count = out.cols - column;
    float x[kInputs == 0 ? 1 : kInputs][4];
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      LoadRun<kAligned>(in.m[i].data + row * in.m[i].stride + column, count,
                        x[i]);
    }
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Behind the end of a row the last column's operand is taken, in vain.
      const int64_t j = i < count ? column + i : out.cols - 1;
      if constexpr (kInputs == 0) {
        y[i] = op(j);
      } else if constexpr (kInputs == 1) {
        y[i] = op(x[0][i], j);
      } else {
        y[i] = op(x[0][i], x[1][i], j);
      }
    }
    StoreRun<kAligned>(y, count, out.data + row * out.stride + column);
  }
}

// Enqueues it; inputs have the shape of `out`, which may be one of them.
template <int kInputs, typename Op>
absl::Status Map(const char* name, KernelStream stream, MapInputs<kInputs> in,
                 Matrix out, Op op) {
  if (out.rows == 0 || out.cols == 0) return absl::OkStatus();
  bool aligned = RowsAligned(out);
  bool flat = !Op::kUsesColumn && out.stride == out.cols;
  for (int i = 0; i < kInputs; ++i) {
    aligned = aligned && RowsAligned(in.m[i]);
    flat = flat && in.m[i].stride == out.cols;
  }
  if (flat) {
    out = Matrix(out.data, 1, out.rows * out.cols);
    aligned = reinterpret_cast<uintptr_t>(out.data) % 16 == 0;
    for (int i = 0; i < kInputs; ++i) {
      in.m[i] = ConstMatrix(in.m[i].data, 1, out.cols);
      aligned = aligned && reinterpret_cast<uintptr_t>(in.m[i].data) % 16 == 0;
    }
  }
  const int64_t runs = (out.cols + 3) / 4;
  const LaunchShape shape = {
      Blocks(out.rows * runs, 256, 16 * Multiprocessors()), 256, 0, stream};
  return aligned ? Launch(name, shape, MapKernel<true, kInputs, Op>, in, out,
                          runs, op)
                 : Launch(name, shape, MapKernel<false, kInputs, Op>, in, out,
                          runs, op);
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_MAP_H_
