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

void Transpose(const float* from, int64_t rows, int64_t cols, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) to[j * rows + i] = from[i * cols + j];
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

double Norm(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
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
  const int64_t n = task.tall, k = task.wide, size = task.size();
  float* next = t + size;
  float* gram = next + size;
  float* polynomial = gram + k * k;
  float* u = task.transposed() ? next : t;
  UpdateMomentum(rule.momentum, g, m, u, size);
  if (task.transposed()) Transpose(next, k, n, t);
  Normalise(t, size);
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    Multiply(threads, {k, k, n, 1, k, k, k}, 1, t, t, 0, gram);
    std::copy_n(gram, k * k, polynomial);
    Multiply(threads, {k, k, k, k, 1, k, k}, NewtonSchulz::kC, gram, gram,
             NewtonSchulz::kB, polynomial);
    std::copy_n(t, size, next);
    Multiply(threads, {n, k, k, k, 1, k, k}, 1, t, polynomial, NewtonSchulz::kA,
             next);
    std::swap(t, next);
  }
  if (task.transposed()) {
    Transpose(t, n, k, next);
    std::swap(t, next);
  }
  const float rate = task.segment.learning_rate * rate_scale;
  const double scale =
      task.segment.relative
          ? Norm(w, size) / std::sqrt(static_cast<double>(task.wide))
          : 1;
  Move(static_cast<float>(rate * scale), rate * task.segment.weight_decay, t, w,
       size);
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
  const OrthogonalPlan plan = PlanOrthogonalStep(segments);
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
  return PlanOrthogonalStep(segments).floats * int64_t{sizeof(float)};
}

}  // namespace comera::kernels
