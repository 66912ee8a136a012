// The activations of one number, and their slopes.
#ifndef COMERA_KERNELS_CUDA_DEVICE_ACTIVATIONS_H_
#define COMERA_KERNELS_CUDA_DEVICE_ACTIVATIONS_H_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/activation.h"
#include "kernels/cuda/device/gelu.h"

namespace comera::kernels {

// Each has Value of x and Slope of what Backend::ActivateBackward saves.
struct GeluFunction {
  static __device__ __forceinline__ float Value(float x) { return GeluOf(x); }
  static __device__ __forceinline__ float Slope(float x) {
    return GeluSlope(x);
  }
};

struct SiluFunction {
  static __device__ __forceinline__ float Value(float x) {
    return x / (1.0f + expf(-x));
  }
  static __device__ __forceinline__ float Slope(float x) {
    const float s = 1.0f / (1.0f + expf(-x));
    return s * (1.0f + x * (1.0f - s));
  }
};

// x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). Beyond 10 the
// sigmoid is 0 or 1 and its slope 0, so that x is cut there and its powers stay
// finite.
struct GeluTanhFunction {
  static constexpr float kLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;

  static __device__ __forceinline__ float Cut(float x) {
    return fminf(fmaxf(x, -10.0f), 10.0f);
  }
  static __device__ __forceinline__ float Sigmoid(float cut) {
    return 1.0f / (1.0f + expf(-kLinear * (cut + kCubic * cut * cut * cut)));
  }
  static __device__ __forceinline__ float Value(float x) {
    return x * Sigmoid(Cut(x));
  }
  static __device__ __forceinline__ float Slope(float x) {
    const float cut = Cut(x), s = Sigmoid(cut);
    return s + x * s * (1.0f - s) * kLinear * (1.0f + 3 * kCubic * cut * cut);
  }
};

struct IdentityFunction {
  static __device__ __forceinline__ float Value(float x) { return x; }
  static __device__ __forceinline__ float Slope(float) { return 1.0f; }
};

struct TanhFunction {
  static __device__ __forceinline__ float Value(float x) { return tanhf(x); }
  static __device__ __forceinline__ float Slope(float y) {
    return 1.0f - y * y;
  }
};

struct ReluFunction {
  static __device__ __forceinline__ float Value(float x) {
    return x > 0 ? x : 0.0f;
  }
  static __device__ __forceinline__ float Slope(float y) {
    return y > 0 ? 1.0f : 0.0f;
  }
};

// Calls launch(function) with the structure of f.
template <typename F>
absl::Status SwitchActivation(const char* op, Activation f, const F& launch) {
  switch (f) {
    case Activation::kGelu:
      return launch(GeluFunction());
    case Activation::kSilu:
      return launch(SiluFunction());
    case Activation::kTanh:
      return launch(TanhFunction());
    case Activation::kRelu:
      return launch(ReluFunction());
    case Activation::kGeluTanh:
      return launch(GeluTanhFunction());
    case Activation::kIdentity:
      return launch(IdentityFunction());
  }
  return absl::InvalidArgumentError(absl::StrCat(op, ": no such function"));
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_ACTIVATIONS_H_
