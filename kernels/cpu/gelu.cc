// Evaluates exact GELU and its derivative in vectors.
#include "kernels/cpu/gelu.h"

#include <cstring>

#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// acc = acc * x + constant, for all vectors of a batch: one vector alone would
// wait for itself, since the chain of operations is long.
#define COMERA_HORNER(ACC, X, CONSTANT) \
  for (int i = 0; i < kCount; ++i) ACC[i] = ACC[i] * X[i] + CONSTANT

// With t = |x|: Phi(-t) = exp(-t^2 / 2) M(t), where M(t) = exp(t^2 / 2)
// erfc(t / sqrt 2) / 2 is smooth and slow (Mills' ratio), here a polynomial in
// 2 t / 5.2 - 1 (minimax on [0, 5.2], weighted by exp(-t^2 / 2) max(1, t)):
// one exponential for value and slope, and no division. Beyond 5.2 both tails
// are below 1e-6 of x and M stays what it is at 5.2.
template <int kLanes, int kCount, bool kSlope>
COMERA_INLINE void GeluBatch(const float* from, float* value, float* slope) {
  typedef float V __attribute__((vector_size(kLanes * sizeof(float))));
  typedef int32_t I __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr float kEnd = 5.2f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  V x[kCount], t[kCount], u[kCount], m[kCount];
  V f[kCount], p[kCount], e[kCount];
  for (int i = 0; i < kCount; ++i) {
    std::memcpy(&x[i], from + i * kLanes, sizeof(V));
  }
  for (int i = 0; i < kCount; ++i) {
    const V size = (V)((I)x[i] & 0x7fffffff);
    t[i] = size < kEnd ? size : V{} + kEnd;
    u[i] = t[i] * (2.0f / kEnd) - 1.0f;
  }
  // 2^power, power <= 0: 2^n times a minimax polynomial on [-1/2, 1/2]. Adding
  // kRound leaves the rounded integer in the low bits.
  for (int i = 0; i < kCount; ++i) {
    const V wanted = x[i] * (x[i] * -0.721347520444481704f);
    const V power = wanted < -126.0f ? V{} - 126.0f : wanted;
    const V shifted = power + kRound;
    f[i] = power - (shifted - kRound);
    e[i] = (V)(((I)shifted + 127) << 23);
  }
  for (int i = 0; i < kCount; ++i) p[i] = f[i] * 1.32764668e-3f + 9.6755414e-3f;
  for (int i = 0; i < kCount; ++i) m[i] = u[i] * -8.5701254e-3f - 8.4837529e-3f;
  COMERA_HORNER(p, f, 5.55071329e-2f);
  COMERA_HORNER(m, u, 9.57716427e-4f);
  COMERA_HORNER(m, u, 1.90525538e-2f);
  COMERA_HORNER(p, f, 2.40221197e-1f);
  COMERA_HORNER(m, u, -5.23879125e-3f);
  COMERA_HORNER(m, u, 1.26422310e-2f);
  COMERA_HORNER(p, f, 6.93146968e-1f);
  COMERA_HORNER(m, u, -2.89260074e-2f);
  COMERA_HORNER(m, u, 4.10272930e-2f);
  COMERA_HORNER(p, f, 1.00000007f);
  COMERA_HORNER(m, u, -6.03694489e-2f);
  COMERA_HORNER(m, u, 8.49218208e-2f);
  COMERA_HORNER(m, u, -1.11790861e-1f);
  COMERA_HORNER(m, u, 1.36902302e-1f);
  for (int i = 0; i < kCount; ++i) e[i] = p[i] * e[i];
  for (int i = 0; i < kCount; ++i) m[i] = e[i] * m[i];  // Phi(-t)
  for (int i = 0; i < kCount; ++i) {
    const V positive = x[i] > 0 ? x[i] : V{};
    const V out = positive - t[i] * m[i];
    std::memcpy(value + i * kLanes, &out, sizeof(V));
  }
  if (!kSlope) return;
  for (int i = 0; i < kCount; ++i) {
    const V left = m[i] - t[i] * (e[i] * 0.39894228040143268f);
    const V out = x[i] > 0 ? 1.0f - left : left;
    std::memcpy(slope + i * kLanes, &out, sizeof(V));
  }
}

#undef COMERA_HORNER

template <int kLanes, bool kSlope>
COMERA_INLINE void Gelus(const float* x, float* value, float* slope,
                         int64_t n) {
  constexpr int kCount = 4;
  constexpr int64_t kStep = kLanes * kCount;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    GeluBatch<kLanes, kCount, kSlope>(x + i, value + i,
                                      kSlope ? slope + i : nullptr);
  }
  if (i == n) return;
  float in[kStep] = {}, values[kStep], slopes[kStep];
  std::memcpy(in, x + i, (n - i) * sizeof(float));
  GeluBatch<kLanes, kCount, kSlope>(in, values, slopes);
  std::memcpy(value + i, values, (n - i) * sizeof(float));
  if (kSlope) std::memcpy(slope + i, slopes, (n - i) * sizeof(float));
}

// Defines both functions under one target attribute.
#define COMERA_GELUS(NAME, TARGET, LANES)                               \
  struct NAME {                                                         \
    TARGET static void Value(const float* x, float* y, int64_t n) {     \
      Gelus<LANES, false>(x, y, nullptr, n);                            \
    }                                                                   \
    TARGET static void Both(const float* x, float* value, float* slope, \
                            int64_t n) {                                \
      Gelus<LANES, true>(x, value, slope, n);                           \
    }                                                                   \
  };

#if defined(COMERA_TARGETS)
COMERA_GELUS(GelusX86V4, __attribute__((target("arch=x86-64-v4"))), 16)
COMERA_GELUS(GelusX86V3, __attribute__((target("arch=x86-64-v3"))), 8)
#endif
COMERA_GELUS(GelusAnywhere, , 4)

struct Functions {
  void (*value)(const float*, float*, int64_t);
  void (*both)(const float*, float*, float*, int64_t);
};
const Functions& Best() {
  static const Functions best = [] {
#if defined(COMERA_TARGETS)
    if (HasX86V4()) return Functions{GelusX86V4::Value, GelusX86V4::Both};
    if (HasX86V3()) return Functions{GelusX86V3::Value, GelusX86V3::Both};
#endif
    return Functions{GelusAnywhere::Value, GelusAnywhere::Both};
  }();
  return best;
}

}  // namespace

void GeluRun(const float* x, float* y, int64_t n) { Best().value(x, y, n); }

void GeluAndSlopeRun(const float* x, float* value, float* slope, int64_t n) {
  Best().both(x, value, slope, n);
}

}  // namespace comera::kernels
