// The functions of kernels/cuda/device/ptx.h for a build without nvcc: same
// fragments, same rounding of operands.
#ifndef COMERA_TESTS_FAKES_CUDA_CUDA_PTX_ON_HOST_H_
#define COMERA_TESTS_FAKES_CUDA_CUDA_PTX_ON_HOST_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "host_cuda/mma.h"

namespace comera::kernels {

template <typename T>
T* DynamicShared() {
  return static_cast<T*>(fake_cuda::DynamicSharedMemory());
}

inline void WaitForEarlierKernels() { fake_cuda::WaitForEarlierGrids(); }

inline void MmaTf32(float (&d)[4], const uint32_t (&a)[4],
                    const uint32_t (&b)[2],
                    const char* function = __builtin_FUNCTION(),
                    const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  fake_cuda::MmaRequest request = {d, a, b};
  fake_cuda::WarpCollective({"MmaTf32", function, file, line}, 0xffffffffu,
                            &request, fake_cuda::ResolveMmaTf32);
}

inline void MmaBf16(float (&d)[4], const uint32_t (&a)[4],
                    const uint32_t (&b)[2],
                    const char* function = __builtin_FUNCTION(),
                    const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  fake_cuda::MmaRequest request = {d, a, b};
  fake_cuda::WarpCollective({"MmaBf16", function, file, line}, 0xffffffffu,
                            &request, fake_cuda::ResolveMmaBf16);
}

// Each lane reads for itself.
template <bool kTransposed>
uint32_t TileBits(const uint16_t* tile, int stride, int row, int col) {
  if (reinterpret_cast<uintptr_t>(tile) % 16 != 0 || stride % 8 != 0) {
    fake_cuda::Fail("a tile whose rows are not 16-byte aligned");
  }
  const auto at = [&](int i, int j) {
    return uint32_t{kTransposed ? tile[j * stride + i] : tile[i * stride + j]};
  };
  return at(row, col) | at(row, col + 1) << 16;
}
template <bool kTransposed>
void LoadTile(const uint16_t* tile, int stride, uint32_t (&bits)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = 2 * (lane % 4);
  for (int i = 0; i < 4; ++i) {
    bits[i] =
        TileBits<kTransposed>(tile, stride, g + 8 * (i % 2), t + 8 * (i / 2));
  }
}
template <bool kTransposed>
void LoadHalfTile(const uint16_t* tile, int stride, uint32_t (&bits)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = 2 * (lane % 4);
  bits[0] = TileBits<kTransposed>(tile, stride, g, t);
  bits[1] = TileBits<kTransposed>(tile, stride, g, t + 8);
}

inline uint32_t ToTf32(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;  // infinite or NaN
  return (bits + 0x1000u) & 0xffffe000u;
}

inline uint32_t PackBf16(float low, float high) {
  return fake_cuda::Bf16Bits(low) |
         (static_cast<uint32_t>(fake_cuda::Bf16Bits(high)) << 16);
}

inline float LoadOrZero(const float* from, bool valid) {
  return valid ? *from : 0.0f;
}

inline float Exp2Approximate(float x) { return exp2f(x); }
inline float ReciprocalApproximate(float x) { return 1.0f / x; }

// Copies as late as the device may: in the WaitForCopies that covers its group.
inline void CopyAsync16(void* shared, const void* global, bool valid) {
  if (reinterpret_cast<uintptr_t>(shared) % 16 != 0 ||
      (valid && reinterpret_cast<uintptr_t>(global) % 16 != 0)) {
    fake_cuda::Fail("CopyAsync16 of an address that is not 16-byte aligned");
  }
  fake_cuda::AddLateCopy({shared, valid ? global : nullptr});
}
inline void CommitCopies() { fake_cuda::CommitLateCopies(); }
template <int kPending>
void WaitForCopies() {
  fake_cuda::FinishLateCopies(kPending);
}

}  // namespace comera::kernels

#endif  // COMERA_TESTS_FAKES_CUDA_CUDA_PTX_ON_HOST_H_
