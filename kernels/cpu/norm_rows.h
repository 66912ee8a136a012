// One row of layer normalisation, forward and backward, with the multipliers of
// dropout.
#ifndef COMERA_KERNELS_CPU_NORM_ROWS_H_
#define COMERA_KERNELS_CPU_NORM_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dropout_mask.h"

namespace comera::kernels {

// sum = x * scales + residual; scales or residual may be null, sum may be x.
void SumRun(const float* x, const float* scales, const float* residual,
            float* sum, int64_t n);

// Normalises `row` in place and writes y; returns the inverse deviation.
float NormaliseRow(float* row, const float* gamma, const float* beta,
                   float epsilon, float* y, int64_t n);

// With g = grad_y * gamma: grad = (g - mean(g) - normalised * mean(g *
// normalised)) * inverse. `grad` may be grad_y or null.
void BackwardRow(const float* grad_y, const float* normalised,
                 const float* gamma, float inverse, float* grad,
                 float* gamma_sum, float* beta_sum, int64_t n);

// to = from * scales, in place or not; null scales are ones.
void MaskRun(const float* from, const float* scales, float* to, int64_t n);

// y = (normalised * gamma + beta) * scales; a null beta is zeros, null scales
// are ones, y may be normalised.
void OutputRun(const float* normalised, const float* gamma, const float* beta,
               const float* scales, float* y, int64_t n);

// Calls f(column, count, scales) over a row; scales is null without dropout.
template <typename F>
void ForMaskedRuns(const DropoutMask& mask, int64_t row, int64_t cols,
                   const F& f) {
  if (!mask.active()) {
    f(int64_t{0}, cols, nullptr);
    return;
  }
  alignas(64) float scales[kMaskColumns];
  for (int64_t c = 0; c < cols; c += kMaskColumns) {
    const int64_t n = std::min(kMaskColumns, cols - c);
    mask.Fill(row, c, n, scales);
    f(c, n, static_cast<const float*>(scales));
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_NORM_ROWS_H_
