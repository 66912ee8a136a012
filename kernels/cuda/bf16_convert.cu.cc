// Formula: bf16 = round to nearest even of a float32, and back, which is exact.
// Shapes: vectors (count).
// Threads: one takes eight neighbouring numbers, 16 bytes of bfloat16, in
// strides of the grid.
#include "kernels/cuda/bf16_convert.h"

#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/launch.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRun = 8;  // numbers of a thread at a time: 16 bytes of bfloat16

// Read and written in one access.
struct alignas(16) Bits {
  uint32_t pairs[kRun / 2];
};

__device__ __forceinline__ float Widen(uint32_t bits) {
  return __uint_as_float(bits << 16);
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    ToBf16Kernel(int64_t count, const float* __restrict__ from,
                 uint16_t* __restrict__ to) {
  WaitForEarlierKernels();
  const int64_t step = int64_t{gridDim.x} * kThreads * kRun;
  for (int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kRun;
       at < count; at += step) {
    float x[kRun];
    LoadRun<kAligned>(from + at, count - at, x);
    Bits bits;
#pragma unroll
    for (int i = 0; i < kRun / 2; ++i) {
      bits.pairs[i] = PackBf16(x[2 * i], x[2 * i + 1]);
    }
    if (count - at >= kRun) {
      *reinterpret_cast<Bits*>(to + at) = bits;
      continue;
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (at + i < count) {
        to[at + i] = static_cast<uint16_t>(bits.pairs[i / 2] >> (16 * (i % 2)));
      }
    }
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    ToFloatsKernel(int64_t count, const uint16_t* __restrict__ from,
                   float* __restrict__ to) {
  WaitForEarlierKernels();
  const int64_t step = int64_t{gridDim.x} * kThreads * kRun;
  for (int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kRun;
       at < count; at += step) {
    float x[kRun];
    if (count - at >= kRun) {
      const Bits bits = *reinterpret_cast<const Bits*>(from + at);
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        x[i] = Widen(bits.pairs[i / 2] >> (16 * (i % 2)));
      }
    } else {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        x[i] = at + i < count ? Widen(from[at + i]) : 0.0f;
      }
    }
    StoreRun<kAligned>(x, count - at, to + at);
  }
}

LaunchShape Shape(int64_t count, cudaStream_t stream) {
  return {dim3(Blocks(count, kThreads * kRun, 8 * Multiprocessors())),
          dim3(kThreads),
          0,
          {stream}};
}

bool Aligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % 16 == 0;
}

}  // namespace

absl::Status FloatsToBf16(int64_t count, const float* floats, void* bf16,
                          cudaStream_t stream) {
  return Launch("FloatsToBf16", Shape(count, stream),
                Aligned(floats) ? ToBf16Kernel<true> : ToBf16Kernel<false>,
                count, floats, static_cast<uint16_t*>(bf16));
}

absl::Status Bf16ToFloats(int64_t count, const void* bf16, float* floats,
                          cudaStream_t stream) {
  return Launch("Bf16ToFloats", Shape(count, stream),
                Aligned(floats) ? ToFloatsKernel<true> : ToFloatsKernel<false>,
                count, static_cast<const uint16_t*>(bf16), floats);
}

}  // namespace comera::kernels
