// Formula: loss = max(x, 0) - x label + log(1 + exp(-|x|)), grad = sigmoid(x) -
// label; totals += [loss, rows, right answers].
// Shapes: logits, grad_logits (rows, 1); labels (rows); totals (3).
// Threads: one takes a row at a time; blocks leave partial totals.
#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/totals.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    SigmoidCrossEntropyKernel(ConstMatrix logits, const int32_t* labels,
                              Matrix grad, LossTotals* partial) {
  WaitForEarlierKernels();
  LossTotals totals = {};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       row < logits.rows; row += step) {
    // loss
    const double x = logits.data[row * logits.stride];
    const bool clicked = labels[row] == 1;
    const double small = exp(-fabs(x));  // in the sigmoid of either sign
    totals.loss += fmax(x, 0.0) - (clicked ? x : 0.0) + log1p(small);
    totals.rows += 1;
    totals.correct += (x > 0) == clicked ? 1 : 0;
    // gradient
    if (grad.data != nullptr) {
      const double sigmoid = (x > 0 ? 1.0 : small) / (1.0 + small);
      grad.data[row * grad.stride] =
          static_cast<float>(sigmoid - (clicked ? 1.0 : 0.0));
    }
  }
  // sum over the block
  totals.loss = BlockSum(totals.loss);
  totals.rows = BlockSum(totals.rows);
  totals.correct = BlockSum(totals.correct);
  if (threadIdx.x == 0) partial[blockIdx.x] = totals;
}

}  // namespace

absl::Status CudaBackend::SigmoidCrossEntropy(ConstMatrix logits,
                                              ConstIndices labels,
                                              Matrix grad_logits,
                                              float* totals) {
  constexpr char kOp[] = "SigmoidCrossEntropy";
  const int64_t rows = logits.rows;
  RETURN_IF_ERROR(CheckMatrix(kOp, "logits", logits, rows, 1));
  RETURN_IF_ERROR(CheckCrossEntropy(kOp, logits, labels, grad_logits, totals));
  if (rows == 0) return absl::OkStatus();
  const unsigned blocks = Blocks(rows, kThreads, 8 * kSumMultiprocessors);
  ASSIGN_OR_RETURN(LossTotals* const partial, Scratch<LossTotals>(blocks));
  RETURN_IF_ERROR(Launch(kOp, Shape(blocks, kThreads),
                         SigmoidCrossEntropyKernel, logits, labels.data,
                         grad_logits, partial));
  return Launch(kOp, Shape(1, 256), AddTotalsKernel, partial,
                static_cast<int>(blocks), totals);
}

}  // namespace comera::kernels
