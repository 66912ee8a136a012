// Computes attention of one head and sequence, block by block of queries.
#include "kernels/cpu/attention_core.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace comera::kernels {
namespace {

// A block of scores, so that two of them and the keys fit the first caches.
constexpr int64_t kBlockFloats = 8192;

int64_t BlockRows(int64_t length) {
  const int64_t padded = PaddedLength(std::max<int64_t>(length, 1));
  return std::clamp<int64_t>(kBlockFloats / padded / 8 * 8, 8, 128);
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
  // these.
  const int64_t block =
      std::max(kBlockFloats, BlockRows(max_length) * PaddedLength(max_length));
  return ScaleFloats(max_length) + 2 * block;
}

void HeadForward(const HeadInputs& in, const HeadDropout& dropout,
                 ConstMatrix values, bool accumulate, Matrix out,
                 float* log_sum, float* scratch) {
  const int64_t length = in.q.rows, padded = PaddedLength(length);
  const int64_t block = BlockRows(length);
  float* scales = scratch;
  float* scores = scales + ScaleFloats(length);
  for (int64_t first = 0; first < length; first += block) {
    const int64_t rows = std::min(block, length - first);
    PanelGemm({rows, padded, in.q.cols, in.q.stride, 1, padded, padded},
              in.q.data + first * in.q.stride, in.keys_t, false, scores);
    for (int64_t i = 0; i < rows; ++i) {
      log_sum[first + i] =
          ForwardRow(Scales(dropout, first + i, length, scales),
                     scores + i * padded, length);
    }
    PanelGemm({rows, out.cols, length, padded, 1, values.stride, out.stride},
              scores, values.data, accumulate, out.data + first * out.stride);
  }
}

void HeadBackward(const HeadInputs& in, const HeadDropout& dropout,
                  ConstMatrix keys, const float* values_t, const float* log_sum,
                  ConstMatrix grad_out, float factor,
                  const HeadGradients& grads, float* scratch) {
  const int64_t length = in.q.rows, padded = PaddedLength(length);
  const int64_t block = BlockRows(length);
  float* scales = scratch;
  float* scores = scales + ScaleFloats(length);
  float* grad = scores + block * padded;
  for (int64_t first = 0; first < length; first += block) {
    const int64_t rows = std::min(block, length - first);
    const float* q = in.q.data + first * in.q.stride;
    const float* grad_rows = grad_out.data + first * grad_out.stride;
    PanelGemm({rows, padded, in.q.cols, in.q.stride, 1, padded, padded}, q,
              in.keys_t, false, scores);
    PanelGemm({rows, padded, grad_out.cols, grad_out.stride, 1, padded, padded},
              grad_rows, values_t, false, grad);
    for (int64_t i = 0; i < rows; ++i) {
      BackwardRow(Scales(dropout, first + i, length, scales),
                  log_sum[first + i], factor, scores + i * padded,
                  grad + i * padded, length);
    }
    // Blocks after the first add to what it wrote.
    const Matrix& gv = grads.values;
    PanelGemm({length, gv.cols, rows, 1, padded, grad_out.stride, gv.stride},
              scores, grad_rows, grads.accumulate_values || first > 0, gv.data);
    const Matrix& gq = grads.q;
    PanelGemm({rows, gq.cols, length, padded, 1, keys.stride, gq.stride}, grad,
              keys.data, false, gq.data + first * gq.stride);
    const Matrix& gk = grads.keys;
    PanelGemm({length, gk.cols, rows, 1, padded, in.q.stride, gk.stride}, grad,
              q, grads.accumulate_keys || first > 0, gk.data);
  }
}

}  // namespace comera::kernels
