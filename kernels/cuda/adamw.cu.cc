// Formula: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
// p -= rate * (m / c1) / (sqrt(v / c2) + epsilon) + rate * decay * p with the
// corrections c1, c2 = 1 - beta^t; row-wise Adagrad on rows that ask for it: a
// += mean g^2, p -= rate * g / (sqrt(a) + epsilon) + rate * decay * p; and
// SumOfSquares: the sum of x^2.
// Shapes: parameters, gradients and both moments (n), cut into segments.
// Threads: one takes runs of four parameters, a block 1024 such runs of one
// segment; of a segment of rows a warp takes a row, in strides of the grid, and
// leaves it if its gradients are all 0; for the sum, one takes runs of four in
// strides of the grid.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
// Runs of four parameters that a block updates.
constexpr int64_t kBlockRuns = 4 * kThreads;
constexpr int64_t kMostSquareBlocks = 8 * kSumMultiprocessors;
// The most blocks that take rows in strides of the grid.
constexpr int64_t kBlocksPerMultiprocessor = 8;

// partial[block] = sum of squares of the block's share.
template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    SquaresKernel(ConstVector x, double* partial) {
  WaitForEarlierKernels();
  float sum[4] = {};
  const int64_t step = 4 * static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t at =
           4 * (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x);
       at < x.size; at += step) {
    float v[4];
    LoadRun<kAligned>(x.data + at, x.size - at, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += v[i] * v[i];
  }
  const double all = BlockSum((static_cast<double>(sum[0]) + sum[1]) +
                              (static_cast<double>(sum[2]) + sum[3]));
  if (threadIdx.x == 0) partial[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kThreads)
    AddSquaresKernel(const double* partial, int count, float* result) {
  WaitForEarlierKernels();
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) *result = static_cast<float>(sum);
}

// Segments of one launch, as parameters of the kernel. Blocks [first_block[i],
// first_block[i + 1]) update segment i.
constexpr int kMostSegments = 120;
struct Segments {
  int count;
  int first_block[kMostSegments + 1];
  int64_t offset[kMostSegments];
  int64_t size[kMostSegments];
  float learning_rate[kMostSegments];
  float weight_decay[kMostSegments];
};
static_assert(sizeof(Segments) <= 3600);

struct Common {
  float beta1, beta2, epsilon;
  float gradient_scale;
  float first_correction, second_correction;
  const StepState* state;
  const float* squares;
  float clip_norm;
};

struct Buffers {
  float* parameters;
  const float* gradients;
  float *first_moment, *second_moment;
};

struct Rule {
  float beta1, beta2, epsilon;
  float gradient_scale;
  float rate;        // learning rate / (1 - beta1^step)
  float decay;       // learning rate * weight decay
  float root;        // 1 / sqrt(1 - beta2^step)
  float plain_rate;  // learning rate
};

__device__ __forceinline__ void UpdateOne(const Rule& r, float gradient,
                                          float* p, float* m, float* v) {
  gradient *= r.gradient_scale;
  const float first = r.beta1 * *m + (1 - r.beta1) * gradient;
  const float second = r.beta2 * *v + (1 - r.beta2) * gradient * gradient;
  *m = first;
  *v = second;
  *p -= r.rate * first / (sqrtf(second) * r.root + r.epsilon) + r.decay * *p;
}

// The rule of a segment with these rates, clipping and schedule included.
// False: the gradient is not finite, and nothing is to change.
__device__ __forceinline__ bool MakeRule(const Common& common,
                                         float learning_rate,
                                         float weight_decay, Rule* rule) {
  float scale = common.gradient_scale, rate_scale = 1;
  float first_correction = common.first_correction;
  float second_correction = common.second_correction;
  if (common.state != nullptr) {
    const float squares = *common.squares;
    if (!(squares < INFINITY)) return false;
    const float norm = sqrtf(squares);
    if (common.clip_norm > 0 && norm > common.clip_norm) {
      scale *= common.clip_norm / norm;
    }
    rate_scale = common.state->learning_rate_scale;
    first_correction = common.state->first_correction;
    second_correction = common.state->second_correction;
  }
  const float rate = learning_rate * rate_scale;
  *rule = {common.beta1,
           common.beta2,
           common.epsilon,
           scale,
           rate / first_correction,
           rate * weight_decay,
           1.0f / sqrtf(second_correction),
           rate};
  return true;
}

// Updates one row by row-wise Adagrad; a warp calls it together.
__device__ __forceinline__ void AdagradRow(const Rule& rule, int64_t width,
                                           int lane, float* p, const float* g,
                                           float* accumulator) {
  float squares = 0;
  for (int64_t c = lane; c < width; c += kWarp) {
    const float gradient = g[c] * rule.gradient_scale;
    squares += gradient * gradient;
  }
  const float sum = *accumulator + WarpSum(squares) / static_cast<float>(width);
  __syncwarp();  // all have read it
  if (lane == 0) *accumulator = sum;
  const float rate =
      rule.plain_rate * rule.gradient_scale / (sqrtf(sum) + rule.epsilon);
  for (int64_t c = lane; c < width; c += kWarp) {
    p[c] -= rate * g[c] + rule.decay * p[c];
  }
}

// The rows of one segment; the buffers begin at its first parameter.
__global__ void __launch_bounds__(kThreads)
    AdamWRowsKernel(AdamWSegment segment, Common common, Buffers b) {
  WaitForEarlierKernels();
  Rule rule;
  if (!MakeRule(common, segment.learning_rate, segment.weight_decay, &rule)) {
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t width = segment.row_size, rows = segment.size / width;
  const int64_t step = static_cast<int64_t>(gridDim.x) * (kThreads / kWarp);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) +
                     threadIdx.x / kWarp;
       row < rows; row += step) {
    const int64_t first = row * width;
    // touched or not
    bool touched = false;
    for (int64_t c = lane; c < width; c += kWarp) {
      touched |= b.gradients[first + c] != 0;
    }
    if (__ballot_sync(kFullWarp, touched) == 0) continue;
    if (segment.adagrad) {
      AdagradRow(rule, width, lane, b.parameters + first, b.gradients + first,
                 b.second_moment + first);
      continue;
    }
    // update
    for (int64_t c = lane; c < width; c += kWarp) {
      const int64_t e = first + c;
      UpdateOne(rule, b.gradients[e], b.parameters + e, b.first_moment + e,
                b.second_moment + e);
    }
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    AdamWKernel(Segments segments, Common common, Buffers b) {
  WaitForEarlierKernels();
  // The last segment that begins at or before this block.
  const int block = static_cast<int>(blockIdx.x);
  int s = 0, end = segments.count;
  while (end - s > 1) {
    const int middle = (s + end) / 2;
    if (segments.first_block[middle] <= block) {
      s = middle;
    } else {
      end = middle;
    }
  }
  // rule of the segment
  Rule rule;
  if (!MakeRule(common, segments.learning_rate[s], segments.weight_decay[s],
                &rule)) {
    return;
  }
  // update
  const int64_t first = segments.offset[s], last = first + segments.size[s];
  // Runs of four begin at multiples of four of the buffers.
  int64_t run =
      first / 4 + (block - segments.first_block[s]) * kBlockRuns + threadIdx.x;
#pragma unroll
  for (int i = 0; i < static_cast<int>(kBlockRuns) / kThreads;
       ++i, run += kThreads) {
    const int64_t at = 4 * run;
    if (at >= last) return;
    if (kAligned && at >= first && at + 4 <= last) {
      float p[4], g[4], m[4], v[4];
      LoadRun<true>(b.parameters + at, 4, p);
      LoadRun<true>(b.gradients + at, 4, g);
      LoadRun<true>(b.first_moment + at, 4, m);
      LoadRun<true>(b.second_moment + at, 4, v);
#pragma unroll
      for (int k = 0; k < 4; ++k) UpdateOne(rule, g[k], &p[k], &m[k], &v[k]);
      StoreRun<true>(p, 4, b.parameters + at);
      StoreRun<true>(m, 4, b.first_moment + at);
      StoreRun<true>(v, 4, b.second_moment + at);
      continue;
    }
    for (int64_t e = at < first ? first : at; e < at + 4 && e < last; ++e) {
      UpdateOne(rule, b.gradients[e], b.parameters + e, b.first_moment + e,
                b.second_moment + e);
    }
  }
}

Common MakeCommon(const AdamWStep& step) {
  const double t = static_cast<double>(step.step);
  return {step.beta1,
          step.beta2,
          step.epsilon,
          step.gradient_scale,
          static_cast<float>(1 - std::pow(static_cast<double>(step.beta1), t)),
          static_cast<float>(1 - std::pow(static_cast<double>(step.beta2), t)),
          step.state,
          step.squares,
          step.clip_norm};
}

absl::Status CheckSegments(absl::Span<const AdamWSegment> segments,
                           int64_t size) {
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
  }
  return absl::OkStatus();
}

// Neighbours under one rule are one segment.
bool Continues(const AdamWSegment& a, const AdamWSegment& b) {
  return a.offset + a.size == b.offset && a.learning_rate == b.learning_rate &&
         a.weight_decay == b.weight_decay && a.row_size == b.row_size &&
         a.adagrad == b.adagrad;
}

}  // namespace

absl::Status CudaBackend::SumOfSquares(ConstVector x, float* result) {
  constexpr char kOp[] = "SumOfSquares";
  RETURN_IF_ERROR(CheckMemory(kOp, "x", x.data, x.size));
  RETURN_IF_ERROR(CheckMemory(kOp, "result", result, 1));
  const unsigned blocks = Blocks(x.size, 16 * kThreads, kMostSquareBlocks);
  ASSIGN_OR_RETURN(double* const partial, Scratch<double>(blocks));
  RETURN_IF_ERROR(Launch(
      kOp, Shape(blocks, kThreads),
      Aligned(x) ? SquaresKernel<true> : SquaresKernel<false>, x, partial));
  return Launch(kOp, Shape(1, kThreads), AddSquaresKernel, partial,
                static_cast<int>(blocks), result);
}

absl::Status CudaBackend::AdamW(const AdamWStep& step,
                                absl::Span<const AdamWSegment> segments,
                                Vector parameters, ConstVector gradients,
                                Vector first_moment, Vector second_moment) {
  constexpr char kOp[] = "AdamW";
  const int64_t size = parameters.size;
  RETURN_IF_ERROR(CheckMemory(kOp, "parameters", parameters.data, size));
  RETURN_IF_ERROR(CheckVector(kOp, "gradients", gradients, size));
  RETURN_IF_ERROR(CheckVector(kOp, "first_moment", first_moment, size));
  RETURN_IF_ERROR(CheckVector(kOp, "second_moment", second_moment, size));
  if (step.step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("AdamW: step is ", step.step, ", counted from 1"));
  }
  if ((step.state == nullptr) != (step.squares == nullptr)) {
    return absl::InvalidArgumentError("AdamW: state without squares");
  }
  RETURN_IF_ERROR(CheckSegments(segments, size));

  const Common common = MakeCommon(step);
  const Buffers buffers = {parameters.data, gradients.data, first_moment.data,
                           second_moment.data};
  const bool aligned = Aligned(parameters) && Aligned(gradients) &&
                       Aligned(first_moment) && Aligned(second_moment);
  Segments batch = {};
  const auto launch = [&]() -> absl::Status {
    const unsigned blocks =
        static_cast<unsigned>(batch.first_block[batch.count]);
    const absl::Status status =
        Launch(kOp, Shape(blocks, kThreads),
               aligned ? AdamWKernel<true> : AdamWKernel<false>, batch, common,
               buffers);
    batch.count = 0;
    return status;
  };
  for (size_t i = 0; i < segments.size();) {
    AdamWSegment segment = segments[i];
    for (++i; i < segments.size() && Continues(segment, segments[i]); ++i) {
      segment.size += segments[i].size;
    }
    if (segment.size == 0) continue;
    if (segment.row_size > 0) {
      const int64_t at = segment.offset;
      RETURN_IF_ERROR(
          Launch(kOp,
                 Shape(Blocks(segment.size / segment.row_size, kThreads / kWarp,
                              kBlocksPerMultiprocessor * Multiprocessors()),
                       kThreads),
                 AdamWRowsKernel, segment, common,
                 Buffers{parameters.data + at, gradients.data + at,
                         first_moment.data + at, second_moment.data + at}));
      continue;
    }
    const int64_t runs =
        (segment.offset + segment.size + 3) / 4 - segment.offset / 4;
    const int at = batch.count++;
    batch.offset[at] = segment.offset;
    batch.size[at] = segment.size;
    batch.learning_rate[at] = segment.learning_rate;
    batch.weight_decay[at] = segment.weight_decay;
    batch.first_block[at + 1] =
        batch.first_block[at] + static_cast<int>(Blocks(runs, kBlockRuns));
    if (batch.count == kMostSegments) RETURN_IF_ERROR(launch());
  }
  return batch.count == 0 ? absl::OkStatus() : launch();
}

}  // namespace comera::kernels
