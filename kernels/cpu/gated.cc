// Multiplies an activated matrix with another, and its gradients.
#include <algorithm>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "kernels/cpu/activation_runs.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

// Elements whose activations stay in the first cache.
constexpr int64_t kPiece = 1024;

void GatedRun(ActivationRun run, const float* gate, const float* up, float* y,
              int64_t n) {
  float value[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    run(gate + i, value, count);
    MultiplyRun(value, up + i, y + i, count);
  }
}

// Gradients from the activations and their slopes. They may be in the place of
// what they are computed from: no element depends on another.
COMERA_CLONES
void GradientRun(const float* __restrict value, const float* __restrict slope,
                 const float* up, const float* grad_y, float* grad_gate,
                 float* grad_up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float grad = grad_y[i], factor = up[i];
    grad_gate[i] = grad * factor * slope[i];
    grad_up[i] = grad * value[i];
  }
}

void GatedBackwardRun(ValueAndSlopeRun run, const float* gate, const float* up,
                      const float* grad_y, float* grad_gate, float* grad_up,
                      int64_t n) {
  float value[kPiece], slope[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    run(gate + i, value, slope, count);
    GradientRun(value, slope, up + i, grad_y + i, grad_gate + i, grad_up + i,
                count);
  }
}

bool Contiguous(ConstMatrix m) { return m.stride == m.cols; }

}  // namespace

absl::Status CpuBackend::Gated(Activation f, ConstMatrix gate, ConstMatrix up,
                               Matrix y) {
  RETURN_IF_ERROR(
      CheckSameShape("Gated", {"gate", gate}, {{"up", up}, {"y", y}}));
  const ActivationRun run = ActivationRunOf(f);
  ParallelRuns(threads_, gate.rows, gate.cols,
               Contiguous(gate) && Contiguous(up) && Contiguous(y), kMathCost,
               [&](int64_t row, int64_t column, int64_t n) {
                 GatedRun(run, gate.data + row * gate.stride + column,
                          up.data + row * up.stride + column,
                          y.data + row * y.stride + column, n);
               });
  return absl::OkStatus();
}

absl::Status CpuBackend::GatedBackward(Activation f, ConstMatrix gate,
                                       ConstMatrix up, ConstMatrix grad_y,
                                       Matrix grad_gate, Matrix grad_up) {
  RETURN_IF_ERROR(CheckGatedBackward(f, gate, up, grad_y, grad_gate, grad_up));
  const ValueAndSlopeRun run = ValueAndSlopeRunOf(f);
  ParallelRuns(threads_, gate.rows, gate.cols,
               Contiguous(gate) && Contiguous(up) && Contiguous(grad_y) &&
                   Contiguous(grad_gate) && Contiguous(grad_up),
               kMathCost, [&](int64_t row, int64_t column, int64_t n) {
                 GatedBackwardRun(
                     run, gate.data + row * gate.stride + column,
                     up.data + row * up.stride + column,
                     grad_y.data + row * grad_y.stride + column,
                     grad_gate.data + row * grad_gate.stride + column,
                     grad_up.data + row * grad_up.stride + column, n);
               });
  return absl::OkStatus();
}

}  // namespace comera::kernels
