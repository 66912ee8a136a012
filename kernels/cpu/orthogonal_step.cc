// Orthogonalises the momentum of matrices and steps along it (Muon). Every
// element is summed by one thread in one order, so that members of a gang with
// other numbers of threads get the same bits.
#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/small_gemm.h"
#include "kernels/cpu/simd.h"
#include "kernels/orthogonal_plan.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Rows of matrices begin at multiples of so many floats, a whole vector of
// AVX-512, so that products have no columns left that fill a part of one.
constexpr int64_t kLanes = 16;

COMERA_CLONES
void UpdateMomentum(float momentum, const float* __restrict g,
                    float* __restrict m, float* __restrict u, int64_t n) {
  const float fresh = 1 - momentum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float next = momentum * m[i] + fresh * g[i];
    m[i] = next;
    u[i] = momentum * next + fresh * g[i];
  }
}

COMERA_CLONES
void Move(float rate, float decay, const float* __restrict u,
          float* __restrict w, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) w[i] -= rate * u[i] + decay * w[i];
}

// to (cols, rows) = from^T.
void Transpose(const float* from, int64_t rows, int64_t cols,
               int64_t from_stride, float* to, int64_t to_stride) {
  // A tile's lines of both matrices stay in the cache.
  constexpr int64_t kTile = 16;
  for (int64_t i = 0; i < rows; i += kTile) {
    const int64_t last_row = std::min(i + kTile, rows);
    for (int64_t j = 0; j < cols; j += kTile) {
      const int64_t last_col = std::min(j + kTile, cols);
      for (int64_t r = i; r < last_row; ++r) {
        for (int64_t c = j; c < last_col; ++c) {
          to[c * to_stride + r] = from[r * from_stride + c];
        }
      }
    }
  }
}

void CopyRows(const float* from, int64_t rows, int64_t cols,
              int64_t from_stride, float* to, int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(from + i * from_stride, cols, to + i * to_stride);
  }
}

// c = alpha a b + beta c with rows of c shared among the threads.
void Multiply(int threads, const SmallGemmShape& shape, float alpha,
              const float* a, const float* b, float beta, float* c) {
  ParallelRanges(threads, shape.m, shape.n * shape.k,
                 [&](int64_t begin, int64_t end) {
                   SmallGemmShape part = shape;
                   part.m = end - begin;
                   SmallGemm(part, alpha, a + begin * shape.a_row, b, beta,
                             c + begin * shape.c_row);
                 });
}

// The same partial sums on every processor.
COMERA_CLONES
double Norm(const float* x, int64_t n) {
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      const double value = x[i + j];
      sums[j] += value * value;
    }
  }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

void Normalise(float* x, int64_t n) {
  const float factor =
      static_cast<float>(1 / (Norm(x, n) + NewtonSchulz::kEpsilon));
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void Run(int threads, const OrthogonalRule& rule, float rate_scale,
         const OrthogonalTask& task, float* t, float* w, const float* g,
         float* m) {
  const int64_t n = task.tall, k = task.wide, stride = task.stride;
  const int64_t size = task.size();
  float* next = t + n * stride;
  float* gram = next + n * stride;
  float* polynomial = gram + k * stride;
  UpdateMomentum(rule.momentum, g, m, next, size);
  std::fill_n(t, n * stride, 0.0f);
  if (task.transposed()) {
    Transpose(next, k, n, n, t, stride);
  } else {
    CopyRows(next, n, k, k, t, stride);
  }
  Normalise(t, n * stride);
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    Multiply(threads, {k, stride, n, 1, stride, stride, stride}, 1, t, t, 0,
             gram);
    std::copy_n(gram, k * stride, polynomial);
    Multiply(threads, {k, stride, k, stride, 1, stride, stride},
             NewtonSchulz::kC, gram, gram, NewtonSchulz::kB, polynomial);
    std::copy_n(t, n * stride, next);
    Multiply(threads, {n, stride, k, stride, 1, stride, stride}, 1, t,
             polynomial, NewtonSchulz::kA, next);
    std::swap(t, next);
  }
  if (task.transposed()) {
    Transpose(t, n, k, stride, next, n);
  } else {
    CopyRows(t, n, k, stride, next, k);
  }
  const float rate = task.segment.learning_rate * rate_scale;
  const double scale =
      task.segment.relative
          ? Norm(w, size) / std::sqrt(static_cast<double>(task.wide))
          : 1;
  Move(static_cast<float>(rate * scale), rate * task.segment.weight_decay, next,
       w, size);
}

}  // namespace

absl::Status CpuBackend::OrthogonalStep(
    const OrthogonalRule& rule, absl::Span<const OrthogonalSegment> segments,
    Vector parameters, ConstVector gradients, Vector momentum,
    void* workspace) {
  constexpr char kOp[] = "OrthogonalStep";
  const int64_t size = parameters.size;
  RETURN_IF_ERROR(CheckMemory(kOp, "parameters", parameters.data, size));
  RETURN_IF_ERROR(CheckVector(kOp, "gradients", gradients, size));
  RETURN_IF_ERROR(CheckVector(kOp, "momentum", momentum, size));
  RETURN_IF_ERROR(CheckOrthogonalStep(rule, segments, size));
  const OrthogonalPlan plan = PlanOrthogonalStep(segments, kLanes);
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, plan.floats));
  if (rule.state != nullptr && !std::isfinite(*rule.squares)) {
    return absl::OkStatus();
  }
  const float scale =
      rule.state == nullptr ? 1.0f : rule.state->learning_rate_scale;
  const auto run = [&](int threads, const OrthogonalTask& task) {
    const int64_t at = task.segment.offset;
    Run(threads, rule, scale, task,
        static_cast<float*>(workspace) + task.offset, parameters.data + at,
        gradients.data + at, momentum.data + at);
  };
  for (const OrthogonalTask& task : plan.large) run(threads_, task);
  const auto count = static_cast<int64_t>(plan.small.size());
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) run(1, plan.small[i]);
  return absl::OkStatus();
}

int64_t CpuBackend::OrthogonalStepWorkspaceBytes(
    absl::Span<const OrthogonalSegment> segments) {
  return PlanOrthogonalStep(segments, kLanes).floats * int64_t{sizeof(float)};
}

}  // namespace comera::kernels
