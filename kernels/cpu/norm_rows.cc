// Normalises one row, and computes its gradient.
#include "kernels/cpu/norm_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd.h"

namespace comera::kernels {

COMERA_CLONES
void SumRun(const float* x, const float* __restrict scales,
            const float* __restrict residual, float* sum, int64_t n) {
  if (scales != nullptr && residual != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i] * scales[i] + residual[i];
  } else if (scales != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i] * scales[i];
  } else if (residual != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + residual[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] = x[i];
  }
}

// Two passes: the variance is of centred values.
COMERA_CLONES
float NormaliseRow(float* __restrict row, const float* __restrict gamma,
                   const float* __restrict beta, float epsilon,
                   float* __restrict y, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += row[i];
  const float mean = sum / static_cast<float>(n);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) {
    const float centred = row[i] - mean;
    squares += centred * centred;
  }
  const float inverse =
      1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float value = (row[i] - mean) * inverse;
    row[i] = value;
    y[i] = value * gamma[i] + beta[i];
  }
  return inverse;
}

COMERA_CLONES
void BackwardRow(const float* grad_y, const float* __restrict normalised,
                 const float* __restrict gamma, float inverse, float* grad,
                 float* __restrict gamma_sum, float* __restrict beta_sum,
                 int64_t n) {
  float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad_y[i] * gamma[i];
    sum += g;
    product += g * normalised[i];
    gamma_sum[i] += grad_y[i] * normalised[i];
    beta_sum[i] += grad_y[i];
  }
  if (grad == nullptr) return;
  const float mean = sum / static_cast<float>(n);
  const float slope = product / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    grad[i] = (grad_y[i] * gamma[i] - mean - normalised[i] * slope) * inverse;
  }
}

COMERA_CLONES
void MaskRun(const float* from, const float* scales, float* to, int64_t n) {
  if (scales == nullptr) {
    std::copy(from, from + n, to);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] * scales[i];
}

COMERA_CLONES
void OutputRun(const float* normalised, const float* __restrict gamma,
               const float* __restrict beta, const float* __restrict scales,
               float* y, int64_t n) {
  if (beta != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = normalised[i] * gamma[i] + beta[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = normalised[i] * gamma[i];
  }
  if (scales == nullptr) return;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= scales[i];
}

}  // namespace comera::kernels
