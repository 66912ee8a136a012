// Computes the logistic loss of one logit a row, and its gradient.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/check_indices.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Simple elements that one logit is worth: an exp and a log in double.
constexpr int64_t kCost = 32;

// What a block of rows adds to the totals.
struct Totals {
  double loss = 0;
  double correct = 0;
};

void AddLogit(float logit, bool clicked, float* grad, Totals* totals) {
  const double x = logit;
  const double small =
      std::exp(-std::fabs(x));  // in the sigmoid of either sign
  totals->loss += std::max(x, 0.0) - (clicked ? x : 0) + std::log1p(small);
  totals->correct += (x > 0) == clicked ? 1 : 0;
  if (grad == nullptr) return;
  const double sigmoid = (x > 0 ? 1 : small) / (1 + small);
  *grad = static_cast<float>(sigmoid - (clicked ? 1 : 0));
}

}  // namespace

absl::Status CpuBackend::SigmoidCrossEntropy(ConstMatrix logits,
                                             ConstIndices labels,
                                             Matrix grad_logits,
                                             float* totals) {
  constexpr char kOp[] = "SigmoidCrossEntropy";
  const int64_t rows = logits.rows;
  RETURN_IF_ERROR(CheckMatrix(kOp, "logits", logits, rows, 1));
  RETURN_IF_ERROR(CheckCrossEntropy(kOp, logits, labels, grad_logits, totals));
  RETURN_IF_ERROR(CheckIndices(kOp, labels, 2));
  if (rows == 0) return absl::OkStatus();

  const int64_t blocks = std::min(rows, kReductionBlocks);
  Totals* partial = Scratch<Totals>(blocks);
  ParallelRanges(
      threads_, blocks, kCost * rows / blocks, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          partial[b] = Totals();
          for (int64_t i = rows * b / blocks; i < rows * (b + 1) / blocks;
               ++i) {
            AddLogit(logits.data[i * logits.stride], labels.data[i] == 1,
                     grad_logits.data == nullptr
                         ? nullptr
                         : grad_logits.data + i * grad_logits.stride,
                     &partial[b]);
          }
        }
      });
  Totals sum;
  for (int64_t b = 0; b < blocks; ++b) {
    sum.loss += partial[b].loss;
    sum.correct += partial[b].correct;
  }
  totals[0] += static_cast<float>(sum.loss);
  totals[1] += static_cast<float>(rows);
  totals[2] += static_cast<float>(sum.correct);
  return absl::OkStatus();
}

}  // namespace comera::kernels
