// Updates parameters by AdamW, and sums squares in a fixed order.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int64_t kSquaresRun = 4096;  // squares that are summed in fp32
constexpr int64_t kCost = 4;           // simple elements per parameter

COMERA_CLONES
float Squares(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

// What is the same for every element of a segment.
struct Rule {
  float beta1, beta2, epsilon;
  float gradient_scale;
  float rate;        // learning rate / (1 - beta1^step)
  float decay;       // learning rate * weight decay
  float root;        // 1 / sqrt(1 - beta2^step)
  float plain_rate;  // learning rate
};

COMERA_CLONES
void Update(const Rule& rule, float* __restrict p, const float* __restrict g,
            float* __restrict m, float* __restrict v, int64_t n) {
  const Rule r = rule;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * r.gradient_scale;
    const float first = r.beta1 * m[i] + (1 - r.beta1) * gradient;
    const float second = r.beta2 * v[i] + (1 - r.beta2) * gradient * gradient;
    m[i] = first;
    v[i] = second;
    p[i] -= r.rate * first / (std::sqrt(second) * r.root + r.epsilon) +
            r.decay * p[i];
  }
}

// Whether any of the gradients of a row is not 0, NaN included.
inline bool Touched(const float* __restrict g, int64_t n) {
  int other = 0;
#pragma omp simd reduction(| : other)
  for (int64_t i = 0; i < n; ++i) other |= g[i] != 0 ? 1 : 0;
  return other != 0;
}

// The elements [begin, end) of rows of `row` elements, but for those rows whose
// gradients are all 0.
COMERA_CLONES
void UpdateRows(const Rule& rule, int64_t row, int64_t begin, int64_t end,
                float* p, const float* g, float* m, float* v) {
  for (int64_t first = begin - begin % row; first < end; first += row) {
    if (!Touched(g + first, row)) continue;
    const int64_t from = std::max(first, begin);
    Update(rule, p + from, g + from, m + from, v + from,
           std::min(first + row, end) - from);
  }
}

// Row-wise Adagrad on the rows that begin within [begin, end).
COMERA_CLONES
void UpdateRowsByAdagrad(const Rule& rule, int64_t row, int64_t begin,
                         int64_t end, float* p, const float* g, float* v) {
  const Rule r = rule;
  for (int64_t first = (begin + row - 1) / row * row; first < end;
       first += row) {
    if (!Touched(g + first, row)) continue;
    v[first] += Squares(g + first, row) * r.gradient_scale * r.gradient_scale /
                static_cast<float>(row);
    const float rate =
        r.plain_rate * r.gradient_scale / (std::sqrt(v[first]) + r.epsilon);
    float* const __restrict q = p + first;
#pragma omp simd
    for (int64_t i = 0; i < row; ++i) {
      q[i] -= rate * g[first + i] + r.decay * q[i];
    }
  }
}

// What is the same for all segments of a step.
struct Common {
  double first_correction, second_correction;
  double rate_scale;
  float gradient_scale;
};

Common MakeCommon(const AdamWStep& step) {
  const double t = static_cast<double>(step.step);
  if (step.state == nullptr) {
    return {1 - std::pow(static_cast<double>(step.beta1), t),
            1 - std::pow(static_cast<double>(step.beta2), t), 1,
            step.gradient_scale};
  }
  const float norm = std::sqrt(*step.squares);
  const bool clip = step.clip_norm > 0 && norm > step.clip_norm;
  return {step.state->first_correction, step.state->second_correction,
          step.state->learning_rate_scale,
          step.gradient_scale * (clip ? step.clip_norm / norm : 1.0f)};
}

Rule MakeRule(const AdamWStep& step, const Common& common,
              const AdamWSegment& segment) {
  const double rate = segment.learning_rate * common.rate_scale;
  return {step.beta1,
          step.beta2,
          step.epsilon,
          common.gradient_scale,
          static_cast<float>(rate / common.first_correction),
          static_cast<float>(rate * segment.weight_decay),
          static_cast<float>(1 / std::sqrt(common.second_correction)),
          static_cast<float>(rate)};
}

}  // namespace

absl::Status CpuBackend::SumOfSquares(ConstVector x, float* result) {
  RETURN_IF_ERROR(CheckMemory("SumOfSquares", "x", x.data, x.size));
  RETURN_IF_ERROR(CheckMemory("SumOfSquares", "result", result, 1));
  const int64_t runs = (x.size + kSquaresRun - 1) / kSquaresRun;
  double* partial = Scratch<double>(runs);
  ParallelRanges(threads_, runs, kSquaresRun, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      partial[i] = Squares(x.data + i * kSquaresRun,
                           std::min(kSquaresRun, x.size - i * kSquaresRun));
    }
  });
  double sum = 0;
  for (int64_t i = 0; i < runs; ++i) sum += partial[i];
  *result = static_cast<float>(sum);
  return absl::OkStatus();
}

absl::Status CpuBackend::AdamW(const AdamWStep& step,
                               absl::Span<const AdamWSegment> segments,
                               Vector parameters, ConstVector gradients,
                               Vector first_moment, Vector second_moment) {
  const int64_t size = parameters.size;
  RETURN_IF_ERROR(CheckMemory("AdamW", "parameters", parameters.data, size));
  RETURN_IF_ERROR(CheckVector("AdamW", "gradients", gradients, size));
  RETURN_IF_ERROR(CheckVector("AdamW", "first_moment", first_moment, size));
  RETURN_IF_ERROR(CheckVector("AdamW", "second_moment", second_moment, size));
  if (step.step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("AdamW: step is ", step.step, ", counted from 1"));
  }
  if ((step.state == nullptr) != (step.squares == nullptr)) {
    return absl::InvalidArgumentError("AdamW: state without squares");
  }
  int64_t total = 0;
  for (const AdamWSegment& segment : segments) {
    if (segment.offset < 0 || segment.size < 0 ||
        segment.offset > size - segment.size) {
      return absl::InvalidArgumentError(
          absl::StrCat("AdamW: segment [", segment.offset, ", +", segment.size,
                       ") lies outside ", size, " parameters"));
    }
    if (segment.row_size < 0 ||
        (segment.row_size > 0 && segment.size % segment.row_size != 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("AdamW: ", segment.size, " parameters are no rows of ",
                       segment.row_size));
    }
    if (segment.adagrad && segment.row_size == 0) {
      return absl::InvalidArgumentError("AdamW: Adagrad without rows");
    }
    total += segment.size;
  }
  if (step.state != nullptr && !std::isfinite(*step.squares)) {
    return absl::OkStatus();
  }
  const Common common = MakeCommon(step);
  // The segments laid end to end are shared among the threads; many are small.
  ParallelElements(threads_, total, kCost, [&](int64_t begin, int64_t end) {
    int64_t start = 0;
    for (const AdamWSegment& segment : segments) {
      const int64_t first = std::max(begin, start);
      const int64_t last = std::min(end, start + segment.size);
      if (first < last) {
        const Rule rule = MakeRule(step, common, segment);
        if (segment.adagrad) {
          const int64_t at = segment.offset;
          UpdateRowsByAdagrad(rule, segment.row_size, first - start,
                              last - start, parameters.data + at,
                              gradients.data + at, second_moment.data + at);
        } else if (segment.row_size > 0) {
          const int64_t at = segment.offset;
          UpdateRows(rule, segment.row_size, first - start, last - start,
                     parameters.data + at, gradients.data + at,
                     first_moment.data + at, second_moment.data + at);
        } else {
          const int64_t at = segment.offset + first - start;
          Update(rule, parameters.data + at, gradients.data + at,
                 first_moment.data + at, second_moment.data + at, last - first);
        }
      }
      start += segment.size;
    }
  });
  return absl::OkStatus();
}

}  // namespace comera::kernels
