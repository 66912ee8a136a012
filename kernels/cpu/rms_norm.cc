// Normalises rows by their root mean square, and their gradients.
#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

// Simple elements that one element of a row costs (two passes, in cache).
constexpr int64_t kCost = 2;

// Returns the inverse deviation. `normalised` may be x.
COMERA_CLONES
float NormaliseRun(const float* x, const float* __restrict gamma, float epsilon,
                   float* normalised, float* __restrict y, int64_t n) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const float inverse =
      1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float value = x[i] * inverse;
    normalised[i] = value;
    y[i] = value * gamma[i];
  }
  return inverse;
}

// With g = grad_y * gamma: grad_x += (g - normalised * mean(g * normalised)) *
// inverse.
COMERA_CLONES
void BackwardRun(const float* __restrict grad_y,
                 const float* __restrict normalised,
                 const float* __restrict gamma, float inverse,
                 float* __restrict grad_x, float* __restrict gamma_sum,
                 int64_t n) {
  float product = 0;
#pragma omp simd reduction(+ : product)
  for (int64_t i = 0; i < n; ++i) {
    const float along = grad_y[i] * normalised[i];
    product += along * gamma[i];
    gamma_sum[i] += along;
  }
  const float slope = product / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    grad_x[i] += (grad_y[i] * gamma[i] - normalised[i] * slope) * inverse;
  }
}

}  // namespace

absl::Status CpuBackend::RmsNorm(ConstMatrix x, ConstVector gamma,
                                 float epsilon, Matrix normalised,
                                 Vector inverse_deviation, Matrix y) {
  RETURN_IF_ERROR(CheckRmsNorm(x, gamma, normalised, inverse_deviation, y));
  if (x.cols == 0) return absl::OkStatus();
  ParallelRanges(
      threads_, x.rows, kCost * x.cols, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          inverse_deviation.data[i] =
              NormaliseRun(x.data + i * x.stride, gamma.data, epsilon,
                           normalised.data + i * normalised.stride,
                           y.data + i * y.stride, x.cols);
        }
      });
  return absl::OkStatus();
}

absl::Status CpuBackend::RmsNormBackward(ConstMatrix grad_y,
                                         ConstMatrix normalised,
                                         ConstVector inverse_deviation,
                                         ConstVector gamma, Matrix grad_x,
                                         Vector grad_gamma) {
  RETURN_IF_ERROR(CheckRmsNormBackward(grad_y, normalised, inverse_deviation,
                                       gamma, grad_x, grad_gamma));
  const int64_t rows = grad_y.rows, cols = grad_y.cols;
  if (rows == 0 || cols == 0) return absl::OkStatus();

  const int64_t blocks = ReductionBlocks(rows);
  float* partial = Scratch<float>(blocks * cols);
  std::fill(partial, partial + blocks * cols, 0.0f);
  ParallelRanges(threads_, blocks, kCost * rows * cols / blocks,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     for (int64_t i = rows * b / blocks;
                          i < rows * (b + 1) / blocks; ++i) {
                       BackwardRun(grad_y.data + i * grad_y.stride,
                                   normalised.data + i * normalised.stride,
                                   gamma.data, inverse_deviation.data[i],
                                   grad_x.data + i * grad_x.stride,
                                   partial + b * cols, cols);
                     }
                   }
                 });
  AddColumnSums(partial, blocks, cols, cols, grad_gamma.data);
  return absl::OkStatus();
}

}  // namespace comera::kernels
