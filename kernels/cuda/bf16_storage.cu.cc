// Formula: y = x rounded to bfloat16; y = f(x) and grad_x = grad_y f'(saved) of
// matrices that lie in memory as bfloat16, computed in float32.
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

// Read and written in one access.
struct alignas(16) Bits {
  uint32_t pairs[kRun / 2];
};

__device__ __forceinline__ float Widen(uint32_t bits) {
  return __uint_as_float(bits << 16);
}

// The first `count` of kRun numbers, zeros behind them. kAligned: `from` is a
// multiple of 16 bytes.
template <bool kAligned>
__device__ __forceinline__ void Load(const uint16_t* from, int64_t count,
                                     float (&x)[kRun]) {
  if (kAligned && count >= kRun) {
    const Bits bits = *reinterpret_cast<const Bits*>(from);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      x[i] = Widen(bits.pairs[i / 2] >> (16 * (i % 2)) & 0xffff);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) x[i] = i < count ? Widen(from[i]) : 0.0f;
}
template <bool kAligned>
__device__ __forceinline__ void Load(const float* from, int64_t count,
                                     float (&x)[kRun]) {
  LoadRun<kAligned>(from, count, x);
}

template <bool kAligned>
__device__ __forceinline__ void Save(const float (&x)[kRun], int64_t count,
                                     uint16_t* to) {
  Bits bits;
#pragma unroll
  for (int i = 0; i < kRun / 2; ++i) {
    bits.pairs[i] = PackBf16(x[2 * i], x[2 * i + 1]);
  }
  if (kAligned && count >= kRun) {
    *reinterpret_cast<Bits*>(to) = bits;
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (i < count) {
      to[i] = static_cast<uint16_t>(bits.pairs[i / 2] >> (16 * (i % 2)));
    }
  }
}

struct RoundOp {
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
template <bool kAligned, typename X, typename Op>
__global__ void __launch_bounds__(kThreads)
    Bf16MapKernel(MatrixView<const X> x, ConstBf16Matrix y, Bf16Matrix out,
                  int64_t runs, Op op) {
  const int64_t total = out.rows * runs;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x; at < total;
       at += step) {
    const int64_t row = out.rows == 1 ? 0 : Divide(at, runs);
    const int64_t column = kRun * (at - row * runs);
    const int64_t count = out.cols - column;
    float a[kRun], b[kRun] = {};
    Load<kAligned>(x.data + row * x.stride + column, count, a);
    if (y.data != nullptr) {
      Load<kAligned>(y.data + row * y.stride + column, count, b);
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) a[i] = op(a[i], b[i]);
    Save<kAligned>(a, count, out.data + row * out.stride + column);
  }
}

// Whether every row begins at a multiple of 16 bytes.
template <typename T>
bool OnVectors(MatrixView<T> m) {
  return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 &&
         (m.rows <= 1 || m.stride * sizeof(T) % 16 == 0);
}

template <typename X, typename Op>
absl::Status Bf16Map(const char* name, cudaStream_t stream,
                     MatrixView<const X> x, ConstBf16Matrix y, Bf16Matrix out,
                     Op op) {
  if (out.rows == 0 || out.cols == 0) return absl::OkStatus();
  if (x.stride == out.cols && out.stride == out.cols &&
      (y.data == nullptr || y.stride == out.cols)) {
    const int64_t size = out.rows * out.cols;
    x = MatrixView<const X>(x.data, 1, size);
    y = ConstBf16Matrix(y.data, 1, size);
    out = Bf16Matrix(out.data, 1, size);
  }
  const int64_t runs = (out.cols + kRun - 1) / kRun;
  const LaunchShape shape = {
      Blocks(out.rows * runs, kThreads, 16 * Multiprocessors()), kThreads, 0,
      stream};
  return OnVectors(x) && OnVectors(y) && OnVectors(out)
             ? Launch(name, shape, Bf16MapKernel<true, X, Op>, x, y, out, runs,
                      op)
             : Launch(name, shape, Bf16MapKernel<false, X, Op>, x, y, out, runs,
                      op);
}

}  // namespace

absl::Status CudaBackend::Round(ConstMatrix x, Bf16Matrix y) {
  constexpr char kOp[] = "Round";
  RETURN_IF_ERROR(CheckMatrix(kOp, "x", x));
  RETURN_IF_ERROR(CheckBf16(kOp, "y", y, x.rows, x.cols));
  return Bf16Map<float>(kOp, stream_, x, {}, y, RoundOp());
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
