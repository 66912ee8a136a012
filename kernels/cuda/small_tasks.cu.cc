// Formula: small products, copies, fills, additions and folds of cores that do
// not need each other, in one launch.
// Shapes: matrices (rows, cols) with strides, vectors of `rows` elements.
// Threads: each task has blocks of its own, which find it in the kernel's
// parameters: a block takes a tile of 32 by 32 of a product, eight columns of a
// sum, or 2048 elements.
#include "kernels/cuda/small_tasks.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/launch.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kEdge = 32;      // the side of a product's tile and its step
constexpr int kPerThread = 8;  // elements of what goes element by element
constexpr int kTilePart = kEdge * kEdge / kThreads;
constexpr int kRowLanes = kThreads / kEdge;
constexpr int kSumCols = 8;  // columns that a block sums up
constexpr int kSumLanes = kThreads / kSumCols;

template <int kMost>
struct TaskList {
  SmallTask tasks[kMost];
  int count;
};
// Parameters of a kernel: 4 KiB at most to be quick, 32 KiB at all.
constexpr int kFew = 40, kMany = 240;
static_assert(sizeof(TaskList<kFew>) <= 4000);
static_assert(sizeof(TaskList<kMany>) <= 32000);

int64_t BlocksOf(const SmallTask& task) {
  const auto parts = [](int64_t size, int64_t part) {
    return (size + part - 1) / part;
  };
  switch (task.kind) {
    case SmallTask::kGemm:
      return parts(task.rows, kEdge) * parts(task.cols, kEdge);
    case SmallTask::kUnfold:
      if (task.inner == 1) return parts(task.cols, kSumCols);
      break;
    default:
      break;
  }
  return parts(int64_t{task.rows} * task.cols, kThreads * kPerThread);
}

// The part of a tile that a thread brings from memory: element (i, k) of op(m)
// with `rows` of i and `inner` of k.
__device__ __forceinline__ void FetchTile(const float* m, int stride,
                                          bool transposed, int rows, int inner,
                                          int first_row, int first_inner,
                                          float (&part)[kTilePart]) {
  const int low = threadIdx.x % kEdge, high = threadIdx.x / kEdge;
#pragma unroll
  for (int j = 0; j < kTilePart; ++j) {
    const int other = high + j * kRowLanes;
    const int i = first_row + (transposed ? low : other);
    const int k = first_inner + (transposed ? other : low);
    const int64_t at = transposed ? static_cast<int64_t>(k) * stride + i
                                  : static_cast<int64_t>(i) * stride + k;
    part[j] = i < rows && k < inner ? m[at] : 0.0f;
  }
}

// tile[k][i].
__device__ __forceinline__ void StoreTile(const float (&part)[kTilePart],
                                          bool transposed,
                                          float (*tile)[kEdge + 1]) {
  const int low = threadIdx.x % kEdge, high = threadIdx.x / kEdge;
#pragma unroll
  for (int j = 0; j < kTilePart; ++j) {
    const int other = high + j * kRowLanes;
    tile[transposed ? other : low][transposed ? low : other] = part[j];
  }
}

// A tile of a product, four elements to a thread; in float32, whatever the
// precision of large products.
__device__ __forceinline__ void Product(const SmallTask& task, int block,
                                        float (*left)[kEdge + 1],
                                        float (*right)[kEdge + 1]) {
  const int across = (task.cols + kEdge - 1) / kEdge;
  const int first_row = block / across * kEdge;
  const int first_col = block % across * kEdge;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float a[kTilePart], b[kTilePart], sum[2][2] = {};
  // op(b) (inner, cols) by its columns is the transpose of what `a` is.
  const bool across_b = !task.transpose_b;
  FetchTile(task.a, task.a_stride, task.transpose_a, task.rows, task.inner,
            first_row, 0, a);
  FetchTile(task.b, task.b_stride, across_b, task.cols, task.inner, first_col,
            0, b);
  for (int k = 0; k < task.inner; k += kEdge) {
    __syncthreads();  // the step before is done
    StoreTile(a, task.transpose_a, left);
    StoreTile(b, across_b, right);
    __syncthreads();
    if (k + kEdge < task.inner) {
      FetchTile(task.a, task.a_stride, task.transpose_a, task.rows, task.inner,
                first_row, k + kEdge, a);
      FetchTile(task.b, task.b_stride, across_b, task.cols, task.inner,
                first_col, k + kEdge, b);
    }
#pragma unroll
    for (int i = 0; i < kEdge; ++i) {
      const float x0 = left[i][ty], x1 = left[i][ty + 16];
      const float y0 = right[i][tx], y1 = right[i][tx + 16];
      sum[0][0] += x0 * y0;
      sum[0][1] += x0 * y1;
      sum[1][0] += x1 * y0;
      sum[1][1] += x1 * y1;
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = first_row + ty + 16 * i, col = first_col + tx + 16 * j;
      if (row >= task.rows || col >= task.cols) continue;
      float* const to =
          task.c + static_cast<int64_t>(row) * task.c_stride + col;
      const float value = task.alpha * sum[i][j];
      *to = task.beta == 0 ? value : value + task.beta * *to;
    }
  }
}

// The gradient of d in FoldCoreBackward (a kUnfold task whose `inner` is 1):
// columns, of which a thread adds up every 32nd row.
__device__ __forceinline__ void ColumnSums(const SmallTask& task, int block,
                                           float (*sums)[kEdge + 1]) {
  const int lane = threadIdx.x % kSumCols, first = threadIdx.x / kSumCols;
  const int col = block * kSumCols + lane;
  const bool alive = col < task.cols && task.b[col] > task.alpha;
  float sum = 0;
  if (alive) {
#pragma unroll 8
    for (int row = first; row < task.rows; row += kSumLanes) {
      sum += task.x[static_cast<int64_t>(row) * task.b_stride + col] *
             task.a[static_cast<int64_t>(row) * task.a_stride + col];
    }
  }
  sums[lane][first] = sum;
  __syncthreads();
  if (first != 0 || !alive) return;
#pragma unroll 8
  for (int i = 1; i < kSumLanes; ++i) sum += sums[lane][i];
  task.y[col] += sum;
}

// What goes element by element. All is read before anything is written, so that
// a thread waits once.
__device__ __forceinline__ void Elements(const SmallTask& task, int block) {
  const int64_t size = static_cast<int64_t>(task.rows) * task.cols;
  const int64_t first =
      static_cast<int64_t>(block) * kThreads * kPerThread + threadIdx.x;
  const bool matrix = task.kind == SmallTask::kFold ||
                      task.kind == SmallTask::kUnfold ||
                      task.kind == SmallTask::kCopyRows;
  // read
  float value[kPerThread];
  int64_t to[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t at = first + i * kThreads;
    to[i] = -1;
    if (at >= size) continue;
    to[i] = at;
    if (matrix) {
      const int64_t row = Divide(at, task.cols), col = at - row * task.cols;
      to[i] = row * task.c_stride + col;
      if (task.kind == SmallTask::kCopyRows) {
        value[i] = task.a[row * task.a_stride + col];
        continue;
      }
      const float d = task.b[col], rank = d > task.alpha ? d : 0.0f;
      if (task.kind == SmallTask::kFold) {
        value[i] = task.a[row * task.a_stride + col] * rank;
      } else if (d > task.alpha) {
        value[i] = task.c[to[i]] + task.x[row * task.b_stride + col] * rank;
      } else {
        to[i] = -1;
      }
    } else if (task.kind == SmallTask::kCopy) {
      value[i] = task.a[at];
    } else if (task.kind == SmallTask::kFill) {
      value[i] = task.alpha;
    } else {  // kAxpy
      value[i] = task.c[at] + task.alpha * task.a[at];
    }
  }
  // write
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (to[i] >= 0) task.c[to[i]] = value[i];
  }
}

template <int kMost>
__global__ void __launch_bounds__(kThreads)
    SmallTasksKernel(const __grid_constant__ TaskList<kMost> list) {
  __shared__ float left[kEdge][kEdge + 1], right[kEdge][kEdge + 1];
  const int block = static_cast<int>(blockIdx.x);
  int at = 0, end = list.count;  // the last task that starts at or before it
  while (end - at > 1) {
    const int middle = (at + end) / 2;
    if (list.tasks[middle].first_block <= block) {
      at = middle;
    } else {
      end = middle;
    }
  }
  const SmallTask task = list.tasks[at];
  const int own = block - task.first_block;
  if (task.kind == SmallTask::kGemm) {
    Product(task, own, left, right);
  } else if (task.kind == SmallTask::kUnfold && task.inner == 1) {
    ColumnSums(task, own, left);
  } else {
    Elements(task, own);
  }
}

template <int kMost>
absl::Status LaunchList(cudaStream_t stream,
                        absl::Span<const SmallTask> tasks) {
  TaskList<kMost> list = {};
  int64_t blocks = 0;
  for (const SmallTask& task : tasks) {
    list.tasks[list.count] = task;
    list.tasks[list.count++].first_block = static_cast<int32_t>(blocks);
    blocks += BlocksOf(task);
  }
  if (blocks > (int64_t{1} << 30)) {
    return absl::InvalidArgumentError("small operations of too many blocks");
  }
  return Launch(
      "small operations",
      {dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream},
      SmallTasksKernel<kMost>, list);
}

}  // namespace

absl::Status LaunchSmallTasks(cudaStream_t stream,
                              absl::Span<const SmallTask> tasks) {
  while (!tasks.empty()) {
    const size_t count = std::min(tasks.size(), size_t{kMany});
    RETURN_IF_ERROR(count <= kFew
                        ? LaunchList<kFew>(stream, tasks.first(count))
                        : LaunchList<kMany>(stream, tasks.first(count)));
    tasks.remove_prefix(count);
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
