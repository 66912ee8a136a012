// Normalises rows of dropout(x) + residual, and their gradients.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

// Simple elements that one element of a row costs (several passes, in cache).
constexpr int64_t kCost = 4;

}  // namespace

absl::Status CpuBackend::ResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                           ConstMatrix residual,
                                           ConstVector gamma, ConstVector beta,
                                           float epsilon, Matrix normalised,
                                           Vector inverse_deviation, Matrix y) {
  RETURN_IF_ERROR(CheckResidualLayerNorm(key, x, residual, gamma, beta,
                                         normalised, inverse_deviation, y));
  if (x.cols == 0) return absl::OkStatus();
  const DropoutMask mask(key);
  ParallelRanges(
      threads_, x.rows, kCost * x.cols, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float* from = x.data + i * x.stride;
          const float* add = residual.data == nullptr
                                 ? nullptr
                                 : residual.data + i * residual.stride;
          float* row = normalised.data + i * normalised.stride;
          ForMaskedRuns(
              mask, i, x.cols, [&](int64_t c, int64_t n, const float* scales) {
                SumRun(from + c, scales, add == nullptr ? nullptr : add + c,
                       row + c, n);
              });
          inverse_deviation.data[i] =
              NormaliseRow(row, gamma.data, beta.data, epsilon,
                           y.data + i * y.stride, x.cols);
        }
      });
  return absl::OkStatus();
}

absl::Status CpuBackend::LayerNormOutput(const DropoutKey& key,
                                         ConstMatrix normalised,
                                         ConstVector gamma, ConstVector beta,
                                         Matrix y) {
  RETURN_IF_ERROR(CheckLayerNormOutput(key, normalised, gamma, beta, y));
  const DropoutMask mask(key);
  ParallelRanges(threads_, y.rows, y.cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* from = normalised.data + i * normalised.stride;
      float* to = y.data + i * y.stride;
      ForMaskedRuns(mask, i, y.cols,
                    [&](int64_t c, int64_t n, const float* scales) {
                      OutputRun(from + c, gamma.data + c,
                                beta.data == nullptr ? nullptr : beta.data + c,
                                scales, to + c, n);
                    });
    }
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::ResidualLayerNormBackward(
    const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
    ConstVector inverse_deviation, ConstVector gamma, Matrix grad_x,
    Matrix grad_residual, Vector grad_gamma, Vector grad_beta) {
  const int64_t rows = grad_y.rows, cols = grad_y.cols;
  RETURN_IF_ERROR(CheckResidualLayerNormBackward(
      key, grad_y, normalised, inverse_deviation, gamma, grad_x, grad_residual,
      grad_gamma, grad_beta));
  if (rows == 0 || cols == 0) return absl::OkStatus();

  const DropoutMask mask(key);
  const int64_t blocks = ReductionBlocks(rows);
  float* partial = Scratch<float>(2 * blocks * cols);
  std::fill(partial, partial + 2 * blocks * cols, 0.0f);
  // The gradient of the sum goes to grad_residual, or without one straight to
  // grad_x; masking a row of grad_x comes after.
  const Matrix sum = grad_residual.data != nullptr ? grad_residual : grad_x;
  const auto row_backward = [&](int64_t i, float* sums) {
    float* grad = sum.data == nullptr ? nullptr : sum.data + i * sum.stride;
    BackwardRow(grad_y.data + i * grad_y.stride,
                normalised.data + i * normalised.stride, gamma.data,
                inverse_deviation.data[i], grad, sums, sums + cols, cols);
    if (grad_x.data == nullptr) return;
    float* to = grad_x.data + i * grad_x.stride;
    if (to == grad && !mask.active()) return;
    ForMaskedRuns(mask, i, cols,
                  [&](int64_t c, int64_t n, const float* scales) {
                    MaskRun(grad + c, scales, to + c, n);
                  });
  };
  ParallelRanges(threads_, blocks, kCost * rows * cols / blocks,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     for (int64_t i = rows * b / blocks;
                          i < rows * (b + 1) / blocks; ++i) {
                       row_backward(i, partial + 2 * b * cols);
                     }
                   }
                 });
  AddColumnSums(partial, blocks, 2 * cols, cols, grad_gamma.data);
  AddColumnSums(partial + cols, blocks, 2 * cols, cols, grad_beta.data);
  return absl::OkStatus();
}

}  // namespace comera::kernels
