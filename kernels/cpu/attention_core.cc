// Computes attention of one head and sequence, block by block of queries.
#include "kernels/cpu/attention_core.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace comera::kernels {
namespace {

// A block of scores. More of them would use a block of keys more often, and
// leave less of the second cache to the keys.
constexpr int64_t kBlockFloats = 16384;

// Queries of a block, at most. Of causal attention: half of its products with
// the keys of its own place are in vain.
constexpr int64_t kMostRows = 128;
constexpr int64_t kMostCausalRows = 32;

int64_t BlockRows(int64_t length, bool causal) {
  const int64_t padded = PaddedLength(std::max<int64_t>(length, 1));
  return std::clamp<int64_t>(kBlockFloats / padded / 8 * 8, 8,
                             causal ? kMostCausalRows : kMostRows);
}

// A block of queries and the keys that any of them sees.
struct Block {
  int64_t first = 0, rows = 0;
  int64_t keys = 0;

  // Keys that query first + i sees.
  int64_t KeysOf(int64_t i, bool causal) const {
    return causal ? first + i + 1 : keys;
  }
};
Block BlockAt(int64_t first, int64_t rows, int64_t length, bool causal) {
  const int64_t last = std::min(first + rows, length);
  return {first, last - first, causal ? last : length};
}

// Multipliers of a row are drawn in runs of 64.
int64_t ScaleFloats(int64_t length) { return (length + 63) / 64 * 64; }

// row := exp(row - largest) / sum * scales; returns log sum exp. Null scales
// are ones.
COMERA_CLONES
float ForwardRow(const float* __restrict scales, float* __restrict row,
                 int64_t n) {
  float largest = row[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    largest = row[i] > largest ? row[i] : largest;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float value = VectorExp(row[i] - largest);
    row[i] = value;
    sum += value;
  }
  const float inverse = 1.0f / sum;
  if (scales == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) row[i] *= inverse;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) row[i] *= inverse * scales[i];
  }
  return largest + std::log(sum);
}

// Turns scores and the gradient of W into W (in `row`) and the gradient of the
// scores times factor (in `grad`): with P = exp(row - log_sum) and W = P *
// scales, grad := factor (W * grad - P * sum(W * grad)).
COMERA_CLONES
void BackwardRow(const float* __restrict scales, float log_sum, float factor,
                 float* __restrict row, float* __restrict grad, int64_t n) {
  float sum = 0;
  if (scales == nullptr) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const float p = VectorExp(row[i] - log_sum);
      row[i] = p;
      sum += p * grad[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      grad[i] = factor * row[i] * (grad[i] - sum);
    }
    return;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float p = VectorExp(row[i] - log_sum);
    const float g = grad[i] * scales[i];
    row[i] = p;
    grad[i] = g;
    sum += p * g;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float p = row[i];
    grad[i] = factor * p * (grad[i] - sum);
    row[i] = p * scales[i];
  }
}

// The multipliers of query i, or null without dropout.
const float* Scales(const HeadDropout& d, int64_t i, int64_t length,
                    float* scales) {
  if (!d.mask.active()) return nullptr;
  const uint64_t row =
      d.mask.Row(d.first_row + i) * static_cast<uint64_t>(d.heads) +
      static_cast<uint64_t>(d.head);
  d.mask.FillRow(row, 0, length, scales);
  return scales;
}

}  // namespace

int64_t HeadScratchFloats(int64_t max_length) {
  // Shorter sequences have blocks of more rows, but of no more floats than
  // these; causal attention has no larger ones.
  const int64_t padded = PaddedLength(max_length);
  const int64_t block = std::max(std::min(kBlockFloats, kMostRows * padded),
                                 BlockRows(max_length, false) * padded);
  return ScaleFloats(max_length) + 2 * block;
}

void HeadForward(const HeadInputs& in, const HeadDropout& dropout,
                 ConstMatrix values, bool accumulate, Matrix out,
                 float* log_sum, float* scratch) {
  const int64_t length = in.q.rows, padded = PaddedLength(length);
  const int64_t step = BlockRows(length, in.causal);
  float* scales = scratch;
  float* scores = scales + ScaleFloats(length);
  for (int64_t first = 0; first < length; first += step) {
    const Block block = BlockAt(first, step, length, in.causal);
    PanelGemm({block.rows, PaddedLength(block.keys), in.q.cols, in.q.stride, 1,
               padded, padded},
              in.q.data + first * in.q.stride, in.keys_t, false, scores);
    for (int64_t i = 0; i < block.rows; ++i) {
      const int64_t keys = block.KeysOf(i, in.causal);
      float* row = scores + i * padded;
      log_sum[first + i] =
          ForwardRow(Scales(dropout, first + i, keys, scales), row, keys);
      std::fill(row + keys, row + block.keys, 0.0f);
    }
    PanelGemm({block.rows, out.cols, block.keys, padded, 1, values.stride,
               out.stride},
              scores, values.data, accumulate, out.data + first * out.stride);
  }
}

void HeadBackward(const HeadInputs& in, const HeadDropout& dropout,
                  ConstMatrix keys, const float* values_t, const float* log_sum,
                  ConstMatrix grad_out, float factor,
                  const HeadGradients& grads, float* scratch) {
  const int64_t length = in.q.rows, padded = PaddedLength(length);
  const int64_t step = BlockRows(length, in.causal);
  const int64_t blocks = (length + step - 1) / step;
  float* scales = scratch;
  float* scores = scales + ScaleFloats(length);
  float* grad = scores + step * padded;
  for (int64_t b = 0; b < blocks; ++b) {
    // The first block that is computed writes the gradients of all keys, and
    // the others add to them: of causal attention it is the last, which sees
    // them all.
    const bool add = b > 0;
    const int64_t first = step * (in.causal ? blocks - 1 - b : b);
    const Block block = BlockAt(first, step, length, in.causal);
    const int64_t width = PaddedLength(block.keys);
    const float* q = in.q.data + first * in.q.stride;
    const float* grad_rows = grad_out.data + first * grad_out.stride;
    PanelGemm({block.rows, width, in.q.cols, in.q.stride, 1, padded, padded}, q,
              in.keys_t, false, scores);
    PanelGemm(
        {block.rows, width, grad_out.cols, grad_out.stride, 1, padded, padded},
        grad_rows, values_t, false, grad);
    for (int64_t i = 0; i < block.rows; ++i) {
      const int64_t seen = block.KeysOf(i, in.causal);
      float* row = scores + i * padded;
      float* grad_row = grad + i * padded;
      BackwardRow(Scales(dropout, first + i, seen, scales), log_sum[first + i],
                  factor, row, grad_row, seen);
      std::fill(row + seen, row + block.keys, 0.0f);
      std::fill(grad_row + seen, grad_row + block.keys, 0.0f);
    }
    const Matrix& gv = grads.values;
    PanelGemm({block.keys, gv.cols, block.rows, 1, padded, grad_out.stride,
               gv.stride},
              scores, grad_rows, grads.accumulate_values || add, gv.data);
    const Matrix& gq = grads.q;
    PanelGemm(
        {block.rows, gq.cols, block.keys, padded, 1, keys.stride, gq.stride},
        grad, keys.data, false, gq.data + first * gq.stride);
    const Matrix& gk = grads.keys;
    PanelGemm(
        {block.keys, gk.cols, block.rows, 1, padded, in.q.stride, gk.stride},
        grad, q, grads.accumulate_keys || add, gk.data);
  }
}

}  // namespace comera::kernels
