// Device mathematics. The fast forms are as exact here as the plain ones.
#ifndef COMERA_TESTS_FAKES_CUDA_HOST_CUDA_MATH_H_
#define COMERA_TESTS_FAKES_CUDA_HOST_CUDA_MATH_H_

#include <math.h>

#include <cstdint>
#include <cstring>

namespace comera::fake_cuda {
template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
}  // namespace comera::fake_cuda

inline unsigned __float_as_uint(float x) {
  return comera::fake_cuda::BitCast<unsigned>(x);
}
inline int __float_as_int(float x) {
  return comera::fake_cuda::BitCast<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return comera::fake_cuda::BitCast<float>(x);
}
inline float __int_as_float(int x) {
  return comera::fake_cuda::BitCast<float>(x);
}

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = static_cast<float>(sin(M_PI * x));
  *cosine = static_cast<float>(cos(M_PI * x));
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= ((x >> i) & 1u) << (31 - i);
  return r;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = (selector >> (4 * i)) & 7;
    r |= static_cast<unsigned>((bytes >> (8 * which)) & 0xff) << (8 * i);
  }
  return r;
}

#define COMERA_MIN_MAX(type)                                   \
  constexpr type min(type a, type b) { return b < a ? b : a; } \
  constexpr type max(type a, type b) { return a < b ? b : a; }
COMERA_MIN_MAX(int)
COMERA_MIN_MAX(unsigned)
COMERA_MIN_MAX(long)
COMERA_MIN_MAX(unsigned long)
COMERA_MIN_MAX(long long)
COMERA_MIN_MAX(unsigned long long)
#undef COMERA_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#endif  // COMERA_TESTS_FAKES_CUDA_HOST_CUDA_MATH_H_
