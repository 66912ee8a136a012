// The activations over runs of elements. Every run may be in place, of any of
// its inputs.
#ifndef COMERA_KERNELS_CPU_ACTIVATION_RUNS_H_
#define COMERA_KERNELS_CPU_ACTIVATION_RUNS_H_

#include <cstdint>

#include "kernels/activation.h"

namespace comera::kernels {

// Simple elements that one erf, tanh or random number is worth.
inline constexpr int64_t kMathCost = 4;

// y = f(x).
using ActivationRun = void (*)(const float* x, float* y, int64_t n);
ActivationRun ActivationRunOf(Activation f);

// grad_x = grad_y f'(x), with `saved` as in Backend::ActivateBackward.
using ActivationBackwardRun = void (*)(const float* saved, const float* grad_y,
                                       float* grad_x, int64_t n);
ActivationBackwardRun ActivationBackwardRunOf(Activation f);

// value = f(x) and slope = f'(x). Null of kTanh and kRelu, whose slopes are
// made of their values.
using ValueAndSlopeRun = void (*)(const float* x, float* value, float* slope,
                                  int64_t n);
ValueAndSlopeRun ValueAndSlopeRunOf(Activation f);

// y = x * factor.
void MultiplyRun(const float* x, const float* factor, float* y, int64_t n);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_ACTIVATION_RUNS_H_
