// Runs of floats, or of bfloat16 numbers as floats, in 16-byte accesses where
// rows are aligned to them.
#ifndef COMERA_KERNELS_CUDA_DEVICE_VECTOR_ACCESS_H_
#define COMERA_KERNELS_CUDA_DEVICE_VECTOR_ACCESS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/ptx.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Whether every row begins at a multiple of 16 bytes.
template <typename T>
bool RowsAligned(MatrixView<T> m) {
  return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 &&
         (m.rows <= 1 || m.stride * sizeof(T) % 16 == 0);
}
template <typename T>
bool Aligned(VectorView<T> v) {
  return reinterpret_cast<uintptr_t>(v.data) % 16 == 0;
}

// The first `count` of kRun floats, zeros behind them. kAligned: `from` is a
// multiple of 16 bytes.
template <bool kAligned, int kRun>
__device__ __forceinline__ void LoadRun(const float* from, int64_t count,
                                        float (&x)[kRun]) {
  static_assert(kRun % 4 == 0);
  if (kAligned && count >= kRun) {
#pragma unroll
    for (int i = 0; i < kRun; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      x[i] = v.x;
      x[i + 1] = v.y;
      x[i + 2] = v.z;
      x[i + 3] = v.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) x[i] = i < count ? from[i] : 0.0f;
}

template <bool kAligned, int kRun>
__device__ __forceinline__ void StoreRun(const float (&x)[kRun], int64_t count,
                                         float* to) {
  static_assert(kRun % 4 == 0);
  if (kAligned && count >= kRun) {
#pragma unroll
    for (int i = 0; i < kRun; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (i < count) to[i] = x[i];
  }
}

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(uint16_t bf16) {
  return __uint_as_float(static_cast<uint32_t>(bf16) << 16);
}

// Read and written in one access.
struct alignas(16) Bf16Run {
  uint32_t pairs[4];
};

template <bool kAligned, int kRun>
__device__ __forceinline__ void LoadRun(const uint16_t* from, int64_t count,
                                        float (&x)[kRun]) {
  static_assert(kRun == 8);
  if (kAligned && count >= kRun) {
    const Bf16Run bits = *reinterpret_cast<const Bf16Run*>(from);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      x[i] =
          ToFloat(static_cast<uint16_t>(bits.pairs[i / 2] >> (16 * (i % 2))));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) x[i] = i < count ? ToFloat(from[i]) : 0.0f;
}

template <bool kAligned, int kRun>
__device__ __forceinline__ void StoreRun(const float (&x)[kRun], int64_t count,
                                         uint16_t* to) {
  static_assert(kRun == 8);
  Bf16Run bits;
#pragma unroll
  for (int i = 0; i < kRun / 2; ++i) {
    bits.pairs[i] = PackBf16(x[2 * i], x[2 * i + 1]);
  }
  if (kAligned && count >= kRun) {
    *reinterpret_cast<Bf16Run*>(to) = bits;
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    if (i < count) {
      to[i] = static_cast<uint16_t>(bits.pairs[i / 2] >> (16 * (i % 2)));
    }
  }
}

// n / d; both are small nearly always, and 64-bit division is slow.
__device__ __forceinline__ int64_t Divide(int64_t n, int64_t d) {
  return ((n | d) >> 32) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(n) /
                                                     static_cast<uint32_t>(d))
                              : n / d;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_VECTOR_ACCESS_H_
