// Formula: products, copies, fills, additions and folds of cores that do not
// need each other, in one launch.
// Shapes: matrices (rows, cols) with strides, vectors of `rows` elements.
// Threads: each task has blocks of its own, which find it in the kernel's
// parameters: a block takes a tile of a product, of 64 by 64 on tensor cores
// and of 32 by 32 in float32, for a part of the inner size (ProductSplit);
// eight columns of a sum; or 2048 elements.
#include "kernels/cuda/small_tasks.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/small_product.h"
#include "kernels/cuda/device/tensor_tile.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/precision_switch.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 8;  // elements of what goes element by element
constexpr int kSumCols = 8;    // columns that a block sums up
constexpr int kSumLanes = kThreads / kSumCols;
using ColumnTile = float[kSumCols][kSumLanes + 1];

template <int kMost>
struct TaskList {
  SmallTask tasks[kMost];
  SplitScratch scratch;
  int count;
};
// Parameters of a kernel: 4 KiB at most to be quick, 32 KiB at all.
constexpr int kFew = 40, kMany = GroupedLaunches::kMostTasks;
static_assert(sizeof(TaskList<kFew>) <= 4000);
static_assert(sizeof(TaskList<kMany>) <= 32000);

bool IsProduct(const SmallTask& task) {
  return task.kind == SmallTask::kGemm || task.kind == SmallTask::kTensorGemm;
}

ProductSplit SplitOf(const SmallTask& task) {
  if (!IsProduct(task)) return {};
  return SplitProduct(task.kind == SmallTask::kTensorGemm
                          ? ProductPath::kTensorCores
                          : ProductPath::kFloat32,
                      task.rows, task.cols, task.inner);
}

int64_t BlocksOf(const SmallTask& task, const ProductSplit& split) {
  const auto blocks = [](int64_t size, int64_t part) {
    return (size + part - 1) / part;
  };
  if (IsProduct(task)) return split.tiles * split.parts;
  if (task.kind == SmallTask::kUnfold && task.inner == 1) {
    return blocks(task.cols, kSumCols);
  }
  return blocks(int64_t{task.rows} * task.cols, kThreads * kPerThread);
}

// Blocks start in their order: those that take longest come first, so that the
// device is not left to few of them at the end.
int StartOrder(const SmallTask& task) {
  if (task.kind == SmallTask::kTensorGemm) return 0;
  return task.kind == SmallTask::kGemm ? 1 : 2;
}

// The gradient of d in FoldCoreBackward (a kUnfold task whose `inner` is 1):
// columns, of which a thread adds up every 32nd row.
__device__ __forceinline__ void ColumnSums(const SmallTask& task, int block,
                                           ColumnTile& sums) {
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
  const bool matrix =
      task.kind == SmallTask::kFold || task.kind == SmallTask::kUnfold ||
      task.kind == SmallTask::kCopyRows || task.kind == SmallTask::kRound;
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
      if (task.kind == SmallTask::kCopyRows || task.kind == SmallTask::kRound) {
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
  if (task.kind == SmallTask::kRound) {
    auto* const rounded = reinterpret_cast<uint16_t*>(task.c);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (to[i] >= 0) {
        rounded[to[i]] = static_cast<uint16_t>(PackBf16(value[i], 0));
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (to[i] >= 0) task.c[to[i]] = value[i];
  }
}

// Blocks of a multiprocessor; float operands need more registers.
template <CudaPrecision kPrecision>
constexpr int kBlocks = kPrecision == CudaPrecision::kBf16 ? 3 : 2;

template <CudaPrecision kPrecision, int kMost>
__global__ void __launch_bounds__(kThreads, kBlocks<kPrecision>)
    SmallTasksKernel(const __grid_constant__ TaskList<kMost> list) {
  WaitForEarlierKernels();
  // The largest of what the tasks need.
  constexpr int kBytes = TensorTile<kPrecision>::kSharedBytes;
  static_assert(kBytes % 16 == 0 && kBytes >= SmallProduct::kSharedBytes &&
                kBytes >= int{sizeof(ColumnTile)});
  __shared__ float4 shared[kBytes / 16];
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
  const SmallTask& task = list.tasks[at];
  const int own = block - task.first_block;
  if (task.kind == SmallTask::kTensorGemm) {
    TensorTile<kPrecision>::Run(task, own, list.scratch, shared);
  } else if (task.kind == SmallTask::kGemm) {
    SmallProduct::Run(task, own, list.scratch, shared);
  } else if (task.kind == SmallTask::kUnfold && task.inner == 1) {
    ColumnSums(task, own, *reinterpret_cast<ColumnTile*>(shared));
  } else {
    Elements(task, own);
  }
}

template <int kMost>
absl::Status LaunchList(KernelStream stream, CudaPrecision precision,
                        const SplitMemory& memory,
                        absl::Span<const SmallTask> tasks) {
  TaskList<kMost> list = {};
  int64_t blocks = 0, sums = 0, arrived = 0;
  for (const SmallTask& each : tasks) {
    const ProductSplit split = SplitOf(each);
    SmallTask& task = list.tasks[list.count++];
    task = each;
    task.first_block = static_cast<int32_t>(blocks);
    blocks += BlocksOf(task, split);
    task.parts = static_cast<int32_t>(split.parts);
    task.part_inner = static_cast<int32_t>(split.part_inner);
    if (split.parts == 1) continue;
    task.first_sum = static_cast<int32_t>(sums);
    sums += split.scratch_floats;
    task.first_arrived = static_cast<int32_t>(arrived);
    arrived += split.tiles;
  }
  if (blocks > (int64_t{1} << 30)) {
    return absl::InvalidArgumentError("small operations of too many blocks");
  }
  ASSIGN_OR_RETURN(list.scratch, memory(sums));
  return SwitchPrecision(precision, [&](auto each) {
    return Launch(
        "small operations",
        {dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream},
        SmallTasksKernel<each.value, kMost>, list);
  });
}

}  // namespace

absl::Status LaunchSmallTasks(KernelStream stream, CudaPrecision precision,
                              const SplitMemory& memory,
                              std::vector<SmallTask> tasks) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const SmallTask& a, const SmallTask& b) {
                     return StartOrder(a) < StartOrder(b);
                   });
  GroupedLaunches launches;
  for (size_t first = 0, end = 0; first < tasks.size(); first = end) {
    if (first == 0) launches.Add(SplitOf(tasks[0]));
    for (end = first + 1; end < tasks.size(); ++end) {
      if (launches.Add(SplitOf(tasks[end]))) break;
    }
    const auto list = absl::MakeConstSpan(tasks).subspan(first, end - first);
    RETURN_IF_ERROR(list.size() <= kFew
                        ? LaunchList<kFew>(stream, precision, memory, list)
                        : LaunchList<kMany>(stream, precision, memory, list));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
