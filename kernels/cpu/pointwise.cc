// Applies activations and dropout to runs of elements.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Simple elements that one erf, tanh or random number is worth.
constexpr int64_t kMathCost = 4;

// The functions below may run in place: `omp simd` says that no element
// depends on another.
COMERA_CLONES
void MultiplyRun(const float* x, const float* scales, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scales[i];
}

// grad_x = grad_y * gelu'(x), in pieces that stay in the first cache.
void GeluBackwardRun(const float* x, const float* grad_y, float* grad_x,
                     int64_t n) {
  constexpr int64_t kPiece = 1024;
  float value[kPiece], slope[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    GeluAndSlopeRun(x + i, value, slope, count);
    MultiplyRun(grad_y + i, slope, grad_x + i, count);
  }
}

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

bool Contiguous(ConstMatrix m) { return m.stride == m.cols; }

using ForwardRun = void (*)(const float* x, float* y, int64_t n);
using BackwardRun = void (*)(const float* saved, const float* grad_y,
                             float* grad_x, int64_t n);

ForwardRun ForwardOf(Activation f) {
  switch (f) {
    case Activation::kGelu:
      return GeluRun;
    case Activation::kSilu:
      return SiluRun;
    case Activation::kTanh:
      return TanhRun;
    case Activation::kRelu:
      return ReluRun;
  }
  return nullptr;
}

BackwardRun BackwardOf(Activation f) {
  switch (f) {
    case Activation::kGelu:
      return GeluBackwardRun;
    case Activation::kSilu:
      return SiluBackwardRun;
    case Activation::kTanh:
      return TanhBackwardRun;
    case Activation::kRelu:
      return ReluBackwardRun;
  }
  return nullptr;
}

}  // namespace

absl::Status CpuBackend::Activate(Activation f, ConstMatrix x, Matrix y) {
  RETURN_IF_ERROR(CheckMatrix("Activate", "x", x));
  RETURN_IF_ERROR(CheckMatrix("Activate", "y", y, x.rows, x.cols));
  const ForwardRun run = ForwardOf(f);
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
  const BackwardRun run = BackwardOf(f);
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
