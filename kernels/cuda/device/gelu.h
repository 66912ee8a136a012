// Exact GELU, x Phi(x), and its derivative Phi(x) + x phi(x), of one number.
//
// Phi(-|x|) = erfc(|x| / sqrt 2) / 2 by Abramowitz and Stegun 7.1.26: one
// exponential, which the derivative needs anyhow, one reciprocal and no branch,
// in half the instructions of erff and expf. Errors below 4e-7 max(1, |x|): of
// the formula 1e-7, the rest is rounding.
#ifndef COMERA_KERNELS_CUDA_DEVICE_GELU_H_
#define COMERA_KERNELS_CUDA_DEVICE_GELU_H_

#include <cuda_runtime.h>

#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

struct GeluPair {
  float value, slope;
};

__device__ __forceinline__ GeluPair GeluAndSlope(float x) {
  const float z = fabsf(x);
  // exp(-x^2 / 2); 0 from |x| = 14 on, as everything below 1e-38.
  const float e = Exp2Approximate(-0.72134752044448170f * x * x);
  const float u = ReciprocalApproximate(fmaf(0.23164189f, z, 1.0f));
  float p = fmaf(0.5307027145f, u, -0.7265760135f);
  p = fmaf(p, u, 0.7107068705f);
  p = fmaf(p, u, -0.142248368f);
  p = fmaf(p, u, 0.127414796f);
  const float tail = p * u * e;
  const float phi = x > 0 ? 1 - tail : tail;
  return {x * phi, fmaf(0.39894228040143268f * x, e, phi)};
}

__device__ __forceinline__ float GeluOf(float x) {
  return GeluAndSlope(x).value;
}
__device__ __forceinline__ float GeluSlope(float x) {
  return GeluAndSlope(x).slope;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_GELU_H_
