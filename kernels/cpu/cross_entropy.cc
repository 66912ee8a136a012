// Computes the softmax cross-entropy of rows, and its gradient.
#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cpu/check_indices.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

constexpr int64_t kCost = 4;       // simple elements per logit
constexpr int64_t kSumRun = 1024;  // logits that are summed in fp32

COMERA_CLONES
float Largest(const float* x, int64_t n) {
  float largest = x[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

COMERA_CLONES
float SumExp(const float* x, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += VectorExp(x[i] - shift);
  return sum;
}

// The same sum, which also keeps the exponentials, possibly in place.
COMERA_CLONES
float SaveExp(const float* x, float shift, float* to, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float value = VectorExp(x[i] - shift);
    to[i] = value;
    sum += value;
  }
  return sum;
}

COMERA_CLONES
void ScaleRun(float factor, float* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// What a block of rows adds to the totals.
struct Totals {
  double loss = 0;
  double counted = 0;
  double correct = 0;
};

void AddRow(const float* logits, int64_t label, float* grad, int64_t n,
            Totals* totals) {
  if (label < 0) {
    if (grad != nullptr) std::fill(grad, grad + n, 0.0f);
    return;
  }
  totals->counted += 1;
  const float largest = Largest(logits, n);
  const float own = logits[label];
  // The first of equal logits is the answer, so that a model with equal logits
  // everywhere is not always right.
  if (own == largest &&
      std::find(logits, logits + label, largest) == logits + label) {
    totals->correct += 1;
  }
  double sum = 0;
  for (int64_t c = 0; c < n; c += kSumRun) {
    const int64_t count = std::min(kSumRun, n - c);
    sum += grad == nullptr ? SumExp(logits + c, largest, count)
                           : SaveExp(logits + c, largest, grad + c, count);
  }
  totals->loss += std::log(sum) + largest - own;
  if (grad == nullptr) return;
  ScaleRun(static_cast<float>(1 / sum), grad, n);
  grad[label] -= 1;
}

}  // namespace

absl::Status CpuBackend::SoftmaxCrossEntropy(ConstMatrix logits,
                                             ConstIndices labels,
                                             Matrix grad_logits,
                                             float* totals) {
  constexpr char kOp[] = "SoftmaxCrossEntropy";
  const int64_t rows = logits.rows, cols = logits.cols;
  RETURN_IF_ERROR(CheckCrossEntropy(kOp, logits, labels, grad_logits, totals));
  RETURN_IF_ERROR(CheckIndices(kOp, labels, cols, /*least=*/-1));
  if (rows == 0) return absl::OkStatus();

  const int64_t blocks = std::min(rows, kReductionBlocks);
  Totals* partial = Scratch<Totals>(blocks);
  ParallelRanges(threads_, blocks, kCost * rows * cols / blocks,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     partial[b] = Totals();
                     for (int64_t i = rows * b / blocks;
                          i < rows * (b + 1) / blocks; ++i) {
                       AddRow(logits.data + i * logits.stride, labels.data[i],
                              grad_logits.data == nullptr
                                  ? nullptr
                                  : grad_logits.data + i * grad_logits.stride,
                              cols, &partial[b]);
                     }
                   }
                 });
  Totals sum;
  for (int64_t b = 0; b < blocks; ++b) {
    sum.loss += partial[b].loss;
    sum.counted += partial[b].counted;
    sum.correct += partial[b].correct;
  }
  totals[0] += static_cast<float>(sum.loss);
  totals[1] += static_cast<float>(sum.counted);
  totals[2] += static_cast<float>(sum.correct);
  return absl::OkStatus();
}

}  // namespace comera::kernels
