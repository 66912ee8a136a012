// Formula: m = mu m + (1 - mu) g, u = mu m + (1 - mu) g, five Newton-Schulz
// iterations from T = u / (|u| + eps) in the tall orientation, T <- a T + T (b A
// + c A^2) with A = T^T T, and w -= rate * (T + decay * w).
// Shapes: parameters, gradients and momentum (n), in which segments are
// matrices (rows, cols); the workspace as OrthogonalPlan lays it out.
// Threads: a block takes a small matrix and walks its products in tiles of 32 x
// 32, four elements to a thread; a large matrix goes through cuBLAS between
// kernels that walk its elements in strides of the grid.
#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/orthogonal_plan.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kHalf = kTile / 2;
static_assert(kHalf * kHalf == kThreads);

// One matrix as a kernel sees it.
struct Task {
  int64_t offset;     // in the buffers of parameters
  int64_t workspace;  // in the workspace
  int tall, wide;
  bool transposed, relative;
  float learning_rate, weight_decay;
};

Task MakeTask(const OrthogonalTask& task) {
  return {task.segment.offset,
          task.offset,
          static_cast<int>(task.tall),
          static_cast<int>(task.wide),
          task.transposed(),
          task.segment.relative,
          task.segment.learning_rate,
          task.segment.weight_decay};
}

// Matrices of one launch, as parameters of the kernel.
constexpr int kMostTasks = 80;
struct Tasks {
  Task task[kMostTasks];
};
static_assert(sizeof(Tasks) <= 3600);

struct Buffers {
  float* parameters;
  const float* gradients;
  float* momentum;
  float* workspace;
};

struct Rule {
  float momentum;
  const StepState* state;
  const float* squares;
};

__device__ __forceinline__ bool Skips(const Rule& rule) {
  return rule.state != nullptr && !(*rule.squares < INFINITY);
}

// Where element i of the matrix as it is stored lies in T.
__device__ __forceinline__ int64_t PlaceInTall(const Task& task, int64_t i) {
  if (!task.transposed) return i;
  return i % task.tall * task.wide + i / task.tall;
}

// Element i of the momentum, renewed, and of the update that becomes T.
__device__ __forceinline__ float NextUpdate(const Rule& rule, const Task& task,
                                            const Buffers& b, int64_t i) {
  const float fresh = (1 - rule.momentum) * b.gradients[task.offset + i];
  const float m = rule.momentum * b.momentum[task.offset + i] + fresh;
  b.momentum[task.offset + i] = m;
  return rule.momentum * m + fresh;
}

// `squares` of the matrix before the step, for a relative one.
__device__ __forceinline__ float UnitOf(const Task& task, float squares) {
  return task.relative ? sqrtf(squares / static_cast<float>(task.wide)) : 1.0f;
}

__device__ __forceinline__ void MoveElement(const Rule& rule, const Task& task,
                                            const Buffers& b, const float* t,
                                            float unit, int64_t i) {
  const float scale =
      rule.state == nullptr ? 1.0f : rule.state->learning_rate_scale;
  float* w = b.parameters + task.offset + i;
  *w -= task.learning_rate * scale *
        (unit * t[PlaceInTall(task, i)] + task.weight_decay * *w);
}

// A matrix product of one block.
struct Product {
  int m, n, k;
  const float* a;  // (m, k), or (k, m) with kTransposeA
  const float* b;  // (k, n)
  const float* d;  // (m, n), or null
  float alpha, beta;
  float* c;  // (m, n) = alpha a b + beta d
};

template <bool kTransposeA>
__device__ void Multiply(const Product& p) {
  __shared__ float a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kHalf;
  const int y = static_cast<int>(threadIdx.x) / kHalf;
  for (int row = 0; row < p.m; row += kTile) {
    for (int col = 0; col < p.n; col += kTile) {
      float sum[2][2] = {};
      for (int at = 0; at < p.k; at += kTile) {
        __syncthreads();
        for (int e = static_cast<int>(threadIdx.x); e < kTile * kTile;
             e += kThreads) {
          const int i = e / kTile, j = e % kTile;
          // Neighbouring threads read neighbours of `a` in either form.
          const int inner = at + (kTransposeA ? i : j);
          const int outer = row + (kTransposeA ? j : i);
          float value = 0;
          if (inner < p.k && outer < p.m) {
            value = kTransposeA
                        ? p.a[static_cast<int64_t>(inner) * p.m + outer]
                        : p.a[static_cast<int64_t>(outer) * p.k + inner];
          }
          a[kTransposeA ? j : i][kTransposeA ? i : j] = value;
          b[i][j] = at + i < p.k && col + j < p.n
                        ? p.b[static_cast<int64_t>(at + i) * p.n + col + j]
                        : 0.0f;
        }
        __syncthreads();
#pragma unroll 8
        for (int q = 0; q < kTile; ++q) {
          const float a0 = a[y][q], a1 = a[y + kHalf][q];
          const float b0 = b[q][x], b1 = b[q][x + kHalf];
          sum[0][0] += a0 * b0;
          sum[0][1] += a0 * b1;
          sum[1][0] += a1 * b0;
          sum[1][1] += a1 * b1;
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int r = row + y + i * kHalf, s = col + x + j * kHalf;
          if (r >= p.m || s >= p.n) continue;
          const int64_t to = static_cast<int64_t>(r) * p.n + s;
          const float old = p.d == nullptr ? 0.0f : p.beta * p.d[to];
          p.c[to] = p.alpha * sum[i][j] + old;
        }
      }
    }
  }
  __syncthreads();  // the next product reads c
}

__global__ void __launch_bounds__(kThreads)
    SmallStepKernel(Tasks tasks, Rule rule, Buffers buffers) {
  WaitForEarlierKernels();
  if (Skips(rule)) return;
  const Task task = tasks.task[blockIdx.x];
  const int64_t size = static_cast<int64_t>(task.tall) * task.wide;
  float* t = buffers.workspace + task.workspace;
  float* next = t + size;
  float* gram = next + size;
  float* polynomial = gram + static_cast<int64_t>(task.wide) * task.wide;
  // momentum and norm
  double squares = 0;
  for (int64_t i = threadIdx.x; i < size; i += kThreads) {
    const float u = NextUpdate(rule, task, buffers, i);
    t[PlaceInTall(task, i)] = u;
    squares += static_cast<double>(u) * u;
  }
  squares = BlockSum(squares);
  const float factor =
      1.0f / (sqrtf(static_cast<float>(squares)) + NewtonSchulz::kEpsilon);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < size; i += kThreads) t[i] *= factor;
  // iterations
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    const int n = task.tall, k = task.wide;
    Multiply<true>({k, k, n, t, t, nullptr, 1, 0, gram});
    Multiply<false>({k, k, k, gram, gram, gram, NewtonSchulz::kC,
                     NewtonSchulz::kB, polynomial});
    Multiply<false>({n, k, k, t, polynomial, t, 1, NewtonSchulz::kA, next});
    float* const swap = t;
    t = next;
    next = swap;
  }
  // step
  float unit = 1;
  if (task.relative) {
    squares = 0;
    for (int64_t i = threadIdx.x; i < size; i += kThreads) {
      const double w = buffers.parameters[task.offset + i];
      squares += w * w;
    }
    unit = UnitOf(task, static_cast<float>(BlockSum(squares)));
    __syncthreads();
  }
  for (int64_t i = threadIdx.x; i < size; i += kThreads) {
    MoveElement(rule, task, buffers, t, unit, i);
  }
}

// T = the update of a large matrix, not yet divided by its norm.
__global__ void __launch_bounds__(kThreads)
    BeginLargeKernel(Task task, Rule rule, Buffers buffers) {
  WaitForEarlierKernels();
  if (Skips(rule)) return;
  const int64_t size = static_cast<int64_t>(task.tall) * task.wide;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size; i += step) {
    buffers.workspace[task.workspace + PlaceInTall(task, i)] =
        NextUpdate(rule, task, buffers, i);
  }
}

// x *= 1 / (sqrt(squares) + eps).
__global__ void __launch_bounds__(kThreads)
    NormaliseKernel(Vector x, const float* squares) {
  WaitForEarlierKernels();
  const float factor = 1.0f / (sqrtf(*squares) + NewtonSchulz::kEpsilon);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < x.size; i += step) {
    x.data[i] *= factor;
  }
}

__global__ void __launch_bounds__(kThreads)
    EndLargeKernel(Task task, Rule rule, Buffers buffers, const float* t,
                   const float* squares) {
  WaitForEarlierKernels();
  if (Skips(rule)) return;
  const float unit = UnitOf(task, *squares);
  const int64_t size = static_cast<int64_t>(task.tall) * task.wide;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < size; i += step) {
    MoveElement(rule, task, buffers, t, unit, i);
  }
}

}  // namespace

absl::Status CudaBackend::OrthogonalStep(
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
  const Buffers buffers = {parameters.data, gradients.data, momentum.data,
                           static_cast<float*>(workspace)};
  const Rule common = {rule.momentum, rule.state, rule.squares};

  for (const OrthogonalTask& large : plan.large) {
    const Task task = MakeTask(large);
    const int64_t n = large.tall, k = large.wide;
    const LaunchShape grid = Shape(
        Blocks(large.size(), 4 * kThreads, 8 * Multiprocessors()), kThreads);
    Matrix t(buffers.workspace + large.offset, n, k);
    Matrix next(t.data + large.size(), n, k);
    const Matrix gram(next.data + large.size(), k, k);
    const Matrix polynomial(gram.data + k * k, k, k);
    RETURN_IF_ERROR(Launch(kOp, grid, BeginLargeKernel, task, common, buffers));
    // The sum lies where the first product comes later.
    RETURN_IF_ERROR(SumOfSquares({t.data, large.size()}, gram.data));
    RETURN_IF_ERROR(Launch(kOp, grid, NormaliseKernel,
                           Vector(t.data, large.size()), gram.data));
    for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
      RETURN_IF_ERROR(Multiply(true, false, 1, t, t, 0, gram));
      RETURN_IF_ERROR(
          Copy(polynomial.data, gram.data, k * k * int64_t{sizeof(float)}));
      RETURN_IF_ERROR(Multiply(false, false, NewtonSchulz::kC, gram, gram,
                               NewtonSchulz::kB, polynomial));
      RETURN_IF_ERROR(
          Copy(next.data, t.data, large.size() * int64_t{sizeof(float)}));
      RETURN_IF_ERROR(
          Multiply(false, false, 1, t, polynomial, NewtonSchulz::kA, next));
      std::swap(t, next);
    }
    RETURN_IF_ERROR(SumOfSquares(
        {parameters.data + task.offset, large.size()}, gram.data));
    RETURN_IF_ERROR(Launch(kOp, grid, EndLargeKernel, task, common, buffers,
                           t.data, gram.data));
  }

  for (size_t first = 0; first < plan.small.size(); first += kMostTasks) {
    Tasks tasks = {};
    const size_t count =
        std::min<size_t>(kMostTasks, plan.small.size() - first);
    for (size_t i = 0; i < count; ++i) {
      tasks.task[i] = MakeTask(plan.small[first + i]);
    }
    RETURN_IF_ERROR(Launch(kOp,
                           Shape(static_cast<unsigned>(count), kThreads),
                           SmallStepKernel, tasks, common, buffers));
  }
  return absl::OkStatus();
}

int64_t CudaBackend::OrthogonalStepWorkspaceBytes(
    absl::Span<const OrthogonalSegment> segments) {
  return PlanOrthogonalStep(segments).floats * int64_t{sizeof(float)};
}

}  // namespace comera::kernels
