// Computes activations and their slopes in vectors.
#include "kernels/cpu/activation_runs.h"

#include <algorithm>

#include "kernels/cpu/gelu.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace comera::kernels {
namespace {

// The functions below may run in place: `omp simd` says that no element
// depends on another.
COMERA_CLONES
void SiluRun(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1.0f + VectorExp(-x[i]));
}

COMERA_CLONES
void SiluBackwardRun(const float* x, const float* grad_y, float* grad_x,
                     int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float s = 1.0f / (1.0f + VectorExp(-x[i]));
    grad_x[i] = grad_y[i] * s * (1.0f + x[i] * (1.0f - s));
  }
}

COMERA_CLONES
void SiluAndSlopeRun(const float* x, float* value, float* slope, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float in = x[i];
    const float s = 1.0f / (1.0f + VectorExp(-in));
    value[i] = in * s;
    slope[i] = s * (1.0f + in * (1.0f - s));
  }
}

// GPT-2's form of GELU is x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715
// x^3): the tails lose nothing to 1 + tanh(u). Beyond 10 the sigmoid is 0 or 1
// and its slope 0, so that x is cut there and its powers stay finite.
constexpr float kGeluTanhEnd = 10.0f;
constexpr float kGeluTanhLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float kGeluTanhCubic = 0.044715f;

COMERA_INLINE float GeluTanhCut(float x) {
  return x < -kGeluTanhEnd ? -kGeluTanhEnd
                           : (x > kGeluTanhEnd ? kGeluTanhEnd : x);
}
COMERA_INLINE float GeluTanhSigmoid(float cut) {
  const float twice =
      kGeluTanhLinear * (cut + kGeluTanhCubic * cut * cut * cut);
  return 1.0f / (1.0f + VectorExp(-twice));
}

COMERA_CLONES
void GeluTanhRun(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i] * GeluTanhSigmoid(GeluTanhCut(x[i]));
  }
}

COMERA_CLONES
void GeluTanhAndSlopeRun(const float* x, float* value, float* slope,
                         int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float in = x[i], cut = GeluTanhCut(in);
    const float s = GeluTanhSigmoid(cut);
    const float growth =
        kGeluTanhLinear * (1.0f + 3.0f * kGeluTanhCubic * cut * cut);
    value[i] = in * s;
    slope[i] = s + in * s * (1.0f - s) * growth;
  }
}

COMERA_CLONES
void TanhRun(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = VectorTanh(x[i]);
}

COMERA_CLONES
void TanhBackwardRun(const float* y, const float* grad_y, float* grad_x,
                     int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad_y[i] * (1.0f - y[i] * y[i]);
}

COMERA_CLONES
void ReluRun(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0.0f;
}

COMERA_CLONES
void ReluBackwardRun(const float* y, const float* grad_y, float* grad_x,
                     int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) grad_x[i] = y[i] > 0 ? grad_y[i] : 0.0f;
}

void IdentityRun(const float* x, float* y, int64_t n) {
  if (x != y) std::copy(x, x + n, y);
}

void IdentityBackwardRun(const float*, const float* grad_y, float* grad_x,
                         int64_t n) {
  IdentityRun(grad_y, grad_x, n);
}

void IdentityAndSlopeRun(const float* x, float* value, float* slope,
                         int64_t n) {
  IdentityRun(x, value, n);
  std::fill(slope, slope + n, 1.0f);
}

// grad_x = grad_y f'(x), in pieces that stay in the first cache.
template <Activation f>
void BackwardBySlopeRun(const float* x, const float* grad_y, float* grad_x,
                        int64_t n) {
  constexpr int64_t kPiece = 1024;
  const ValueAndSlopeRun run = ValueAndSlopeRunOf(f);
  float value[kPiece], slope[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    run(x + i, value, slope, count);
    MultiplyRun(grad_y + i, slope, grad_x + i, count);
  }
}

}  // namespace

ActivationRun ActivationRunOf(Activation f) {
  switch (f) {
    case Activation::kGelu:
      return GeluRun;
    case Activation::kSilu:
      return SiluRun;
    case Activation::kTanh:
      return TanhRun;
    case Activation::kRelu:
      return ReluRun;
    case Activation::kGeluTanh:
      return GeluTanhRun;
    case Activation::kIdentity:
      return IdentityRun;
  }
  return nullptr;
}

ActivationBackwardRun ActivationBackwardRunOf(Activation f) {
  switch (f) {
    case Activation::kGelu:
      return BackwardBySlopeRun<Activation::kGelu>;
    case Activation::kSilu:
      return SiluBackwardRun;
    case Activation::kTanh:
      return TanhBackwardRun;
    case Activation::kRelu:
      return ReluBackwardRun;
    case Activation::kGeluTanh:
      return BackwardBySlopeRun<Activation::kGeluTanh>;
    case Activation::kIdentity:
      return IdentityBackwardRun;
  }
  return nullptr;
}

ValueAndSlopeRun ValueAndSlopeRunOf(Activation f) {
  switch (f) {
    case Activation::kGelu:
      return GeluAndSlopeRun;
    case Activation::kSilu:
      return SiluAndSlopeRun;
    case Activation::kGeluTanh:
      return GeluTanhAndSlopeRun;
    case Activation::kIdentity:
      return IdentityAndSlopeRun;
    case Activation::kTanh:
    case Activation::kRelu:
      break;
  }
  return nullptr;
}

COMERA_CLONES
void MultiplyRun(const float* x, const float* factor, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor[i];
}

}  // namespace comera::kernels
