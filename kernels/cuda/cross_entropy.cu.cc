// Formula: loss = log(sum of exp(x)) - x[label], grad = softmax(x) -
// onehot(label); a row of label -1 does not count. totals += [loss, rows, right
// answers].
// Shapes: logits, grad_logits (rows, cols); labels (rows); totals (3).
// Threads: a warp takes a row of up to 1024 columns, a block a wider one; a
// thread walks over its columns four at a time.
#include <cuda_runtime.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/totals.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
// Rows of no more columns are taken by a warp each.
constexpr int64_t kWarpColumns = 1024;
// Groups of threads that take a row each.
constexpr int64_t kMostGroups = 16 * kSumMultiprocessors;

// Sum of exp(x - largest) over some logits, and where the largest is: the
// first, of equal ones, so that a model with equal logits everywhere is not
// always right.
struct RowSum {
  float largest, sum;
  int first;
};

__device__ __forceinline__ RowSum Combine(const RowSum& a, const RowSum& b) {
  const bool a_wins =
      a.largest > b.largest || (a.largest == b.largest && a.first < b.first);
  RowSum c;
  c.largest = a_wins ? a.largest : b.largest;
  c.first = a_wins ? a.first : b.first;
  // No logits yet: -infinity, whose difference from itself is no number.
  const float a_part = a.sum == 0 ? 0 : a.sum * expf(a.largest - c.largest);
  const float b_part = b.sum == 0 ? 0 : b.sum * expf(b.largest - c.largest);
  c.sum = a_part + b_part;
  return c;
}

__device__ __forceinline__ RowSum WarpCombine(RowSum x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    RowSum other;
    other.largest = __shfl_xor_sync(kFullWarp, x.largest, lanes);
    other.sum = __shfl_xor_sync(kFullWarp, x.sum, lanes);
    other.first = __shfl_xor_sync(kFullWarp, x.first, lanes);
    x = Combine(x, other);
  }
  return x;
}

// Combines over the threads of a row: a warp's, or the block's.
template <int kRowThreads>
__device__ __forceinline__ RowSum GroupCombine(RowSum x) {
  x = WarpCombine(x);
  if constexpr (kRowThreads > 32) {
    __shared__ RowSum of_warp[kRowThreads / 32];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncthreads();  // the row before is done
    if (lane == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    x = WarpCombine(lane < kRowThreads / 32 ? of_warp[lane]
                                            : RowSum{-INFINITY, 0, 0});
  }
  return x;
}

// kRowThreads threads to a row; several rows one after the other. Each group of
// threads leaves its rows' totals in partial.
template <int kRowThreads, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyKernel(ConstMatrix logits, const int32_t* labels, Matrix grad,
                       LossTotals* partial) {
  WaitForEarlierKernels();
  constexpr int kGroups = kThreads / kRowThreads;
  const int thread = static_cast<int>(threadIdx.x) % kRowThreads;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kGroups +
                        static_cast<int>(threadIdx.x) / kRowThreads;
  const int64_t cols = logits.cols;
  LossTotals totals = {};
  for (int64_t row = group; row < logits.rows;
       row += static_cast<int64_t>(gridDim.x) * kGroups) {
    const float* const x = logits.data + row * logits.stride;
    float* const to =
        grad.data == nullptr ? nullptr : grad.data + row * grad.stride;
    const int32_t label = labels[row];
    if (label < 0) {
      for (int64_t c = thread; to != nullptr && c < cols; c += kRowThreads) {
        to[c] = 0;
      }
      continue;
    }
    // Before any thread overwrites it: a barrier follows, of the row's threads.
    const float own = x[label];
    if constexpr (kRowThreads <= 32) __syncwarp();
    // largest logit and sum of exponentials, in one pass
    RowSum sum = {-INFINITY, 0, 0};
    for (int64_t c = 4 * thread; c < cols; c += 4 * kRowThreads) {
      float v[4];
      LoadRun<kAligned>(x + c, cols - c, v);
      const int count = cols - c < 4 ? static_cast<int>(cols - c) : 4;
      RowSum run = {v[0], 0, static_cast<int>(c)};
#pragma unroll
      for (int i = 1; i < 4; ++i) {
        if (i < count && v[i] > run.largest) {
          run.largest = v[i];
          run.first = static_cast<int>(c) + i;
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < count) run.sum += expf(v[i] - run.largest);
      }
      sum = Combine(sum, run);
    }
    sum = GroupCombine<kRowThreads>(sum);
    // loss
    if (thread == 0) {
      totals.loss += static_cast<double>(logf(sum.sum)) +
                     (static_cast<double>(sum.largest) - own);
      totals.rows += 1;
      totals.correct += sum.first == label ? 1 : 0;
    }
    // gradient
    if (to == nullptr) continue;
    const float scale = 1.0f / sum.sum;
    for (int64_t c = 4 * thread; c < cols; c += 4 * kRowThreads) {
      float v[4];
      LoadRun<kAligned>(x + c, cols - c, v);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        v[i] = expf(v[i] - sum.largest) * scale - (c + i == label ? 1 : 0);
      }
      StoreRun<kAligned>(v, cols - c, to + c);
    }
  }
  if (thread == 0) partial[group] = totals;
}

template <int kRowThreads>
absl::Status Run(KernelStream stream, ConstMatrix logits, ConstIndices labels,
                 Matrix grad, LossTotals* partial, float* totals) {
  constexpr char kOp[] = "SoftmaxCrossEntropy";
  constexpr int kGroups = kThreads / kRowThreads;
  const unsigned blocks = Blocks(std::min(logits.rows, kMostGroups), kGroups);
  const bool aligned =
      RowsAligned(logits) && (grad.data == nullptr || RowsAligned(grad));
  RETURN_IF_ERROR(Launch(kOp, {blocks, kThreads, 0, stream},
                         aligned ? CrossEntropyKernel<kRowThreads, true>
                                 : CrossEntropyKernel<kRowThreads, false>,
                         logits, labels.data, grad, partial));
  return Launch(kOp, {1, 256, 0, stream}, AddTotalsKernel, partial,
                static_cast<int>(blocks) * kGroups, totals);
}

}  // namespace

absl::Status CudaBackend::SoftmaxCrossEntropy(ConstMatrix logits,
                                              ConstIndices labels,
                                              Matrix grad_logits,
                                              float* totals) {
  constexpr char kOp[] = "SoftmaxCrossEntropy";
  const int64_t rows = logits.rows, cols = logits.cols;
  RETURN_IF_ERROR(CheckCrossEntropy(kOp, logits, labels, grad_logits, totals));
  if (rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(LossTotals* const partial,
                   Scratch<LossTotals>(2 * kMostGroups));
  return cols <= kWarpColumns
             ? Run<32>(stream_, logits, labels, grad_logits, partial, totals)
             : Run<kThreads>(stream_, logits, labels, grad_logits, partial,
                             totals);
}

}  // namespace comera::kernels
