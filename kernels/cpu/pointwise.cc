// Applies activations and dropout to runs of elements.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/activation_runs.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

bool Contiguous(ConstMatrix m) { return m.stride == m.cols; }

}  // namespace

absl::Status CpuBackend::Activate(Activation f, ConstMatrix x, Matrix y) {
  RETURN_IF_ERROR(CheckMatrix("Activate", "x", x));
  RETURN_IF_ERROR(CheckMatrix("Activate", "y", y, x.rows, x.cols));
  const ActivationRun run = ActivationRunOf(f);
  ParallelRuns(threads_, x.rows, x.cols, Contiguous(x) && Contiguous(y),
               kMathCost, [&](int64_t row, int64_t column, int64_t n) {
                 run(x.data + row * x.stride + column,
                     y.data + row * y.stride + column, n);
               });
  return absl::OkStatus();
}

absl::Status CpuBackend::ActivateBackward(Activation f, ConstMatrix saved,
                                          ConstMatrix grad_y, Matrix grad_x) {
  constexpr char kOp[] = "ActivateBackward";
  RETURN_IF_ERROR(CheckMatrix(kOp, "saved", saved));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_y", grad_y, saved.rows, saved.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_x", grad_x, saved.rows, saved.cols));
  const ActivationBackwardRun run = ActivationBackwardRunOf(f);
  ParallelRuns(threads_, saved.rows, saved.cols,
               Contiguous(saved) && Contiguous(grad_y) && Contiguous(grad_x),
               kMathCost, [&](int64_t row, int64_t column, int64_t n) {
                 run(saved.data + row * saved.stride + column,
                     grad_y.data + row * grad_y.stride + column,
                     grad_x.data + row * grad_x.stride + column, n);
               });
  return absl::OkStatus();
}

absl::Status CpuBackend::Dropout(const DropoutKey& key, ConstMatrix x,
                                 Matrix y) {
  RETURN_IF_ERROR(CheckDropout("Dropout", key));
  RETURN_IF_ERROR(CheckMatrix("Dropout", "x", x));
  RETURN_IF_ERROR(CheckMatrix("Dropout", "y", y, x.rows, x.cols));
  const DropoutMask mask(key);
  ParallelRanges(threads_, x.rows, kMathCost * x.cols,
                 [&](int64_t begin, int64_t end) {
                   alignas(64) float scales[kMaskColumns];
                   for (int64_t i = begin; i < end; ++i) {
                     const float* from = x.data + i * x.stride;
                     float* to = y.data + i * y.stride;
                     if (!mask.active()) {
                       if (from != to) std::copy(from, from + x.cols, to);
                       continue;
                     }
                     for (int64_t c = 0; c < x.cols; c += kMaskColumns) {
                       const int64_t n = std::min(kMaskColumns, x.cols - c);
                       mask.Fill(i, c, n, scales);
                       MultiplyRun(from + c, scales, to + c, n);
                     }
                   }
                 });
  return absl::OkStatus();
}

}  // namespace comera::kernels
