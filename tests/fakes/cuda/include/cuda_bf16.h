// bfloat16 as CUDA's <cuda_bf16.h> has it, as far as kernels use it.
#ifndef COMERA_TESTS_FAKES_CUDA_CUDA_BF16_H_
#define COMERA_TESTS_FAKES_CUDA_CUDA_BF16_H_

#include <cuda_runtime.h>

namespace comera::fake_cuda {
// Rounds to nearest even; a NaN becomes 0x7fff, as on a device.
inline uint16_t Bf16Bits(float x) {
  if (x != x) return 0x7fff;
  const uint32_t bits = __float_as_uint(x);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
}  // namespace comera::fake_cuda

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : bits(comera::fake_cuda::Bf16Bits(x)) {}
  operator float() const {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
  }
};
struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
struct __nv_bfloat16_raw {
  uint16_t x;
};

inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) {
  return __floats2bfloat162_rn(x.x, x.y);
}
inline float2 __bfloat1622float2(__nv_bfloat162 x) {
  return make_float2(x.x, x.y);
}
inline float __low2float(__nv_bfloat162 x) { return x.x; }
inline float __high2float(__nv_bfloat162 x) { return x.y; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 x;
  x.bits = bits;
  return x;
}

#endif  // COMERA_TESTS_FAKES_CUDA_CUDA_BF16_H_
