// Formula: out = P v with P = softmax of scale * q k^T over the kept rows
// [first[i], first[i] + count[i]) of row i.
// Shapes: q (rows, heads * key_width), keys (kept, key_heads * key_width),
// values (kept, value_heads * value_width), out (rows, heads * value_width).
// Threads: a block takes one row and head. A tile of keys at a time, a warp
// takes the score of a key, its lanes along the columns; then each thread adds
// up columns of the values, its sums staying in shared memory with the query
// and the tile's weights.
#include <cuda_runtime.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/launch.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kTile = 64;  // keys
// The widest heads of keys and of values together whose sums and query lie in
// shared memory.
constexpr int64_t kMostWidths = 8192;
constexpr int64_t kMostHeads = 65535;  // blocks of a grid along y

struct Arguments {
  const int32_t* first = nullptr;
  const int32_t* count = nullptr;
  ConstMatrix q, keys, values;
  Matrix out;
  int key_width = 0, value_width = 0;
  int key_group = 1, value_group = 1;  // heads that share keys, values
  float scale = 1;
};

__global__ void __launch_bounds__(kThreads) CachedAttentionKernel(Arguments a) {
  WaitForEarlierKernels();
  const int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32, warp = thread / 32;
  auto* const weights = DynamicShared<float>();
  float* const query = weights + kTile;
  float* const sums = query + a.key_width;
  const float* const q =
      a.q.data + row * a.q.stride + int64_t{head} * a.key_width;
  const int64_t key_column = int64_t{head / a.key_group} * a.key_width;
  const int64_t value_column = int64_t{head / a.value_group} * a.value_width;
  for (int c = thread; c < a.key_width; c += kThreads) {
    query[c] = a.scale * q[c];
  }
  for (int c = thread; c < a.value_width; c += kThreads) sums[c] = 0;
  __syncthreads();

  const int64_t first = a.first[row];
  const int count = a.count[row];
  float largest = -INFINITY, sum = 0;  // the same in every thread
  for (int tile = 0; tile < count; tile += kTile) {
    const int keys = min(kTile, count - tile);
    // scores
    for (int j = warp; j < keys; j += kWarps) {
      const float* const key =
          a.keys.data + (first + tile + j) * a.keys.stride + key_column;
      float score = 0;
      for (int c = lane; c < a.key_width; c += 32) score += query[c] * key[c];
      score = WarpSum(score);
      if (lane == 0) weights[j] = score;
    }
    __syncthreads();
    // maximum, and weights with it
    float most = largest;
    for (int j = lane; j < keys; j += 32) most = fmaxf(most, weights[j]);
    most = WarpMax(most);
    __syncthreads();
    for (int j = thread; j < keys; j += kThreads) {
      weights[j] = expf(weights[j] - most);
    }
    __syncthreads();
    // sums of weights and of values
    const float factor = expf(largest - most);
    float added = 0;
    for (int j = lane; j < keys; j += 32) added += weights[j];
    sum = sum * factor + WarpSum(added);
    largest = most;
    const float* const values =
        a.values.data + (first + tile) * a.values.stride + value_column;
    for (int c = thread; c < a.value_width; c += kThreads) {
      float total = sums[c] * factor;
#pragma unroll 4
      for (int j = 0; j < keys; ++j) {
        total += weights[j] * values[j * a.values.stride + c];
      }
      sums[c] = total;
    }
    __syncthreads();
  }
  float* const out =
      a.out.data + row * a.out.stride + int64_t{head} * a.value_width;
  for (int c = thread; c < a.value_width; c += kThreads) out[c] = sums[c] / sum;
}

}  // namespace

absl::Status CudaBackend::CachedAttention(const CachedAttentionShape& s,
                                          ConstIndices first,
                                          ConstIndices count, int64_t most,
                                          ConstMatrix q, ConstMatrix keys,
                                          ConstMatrix values, Matrix out) {
  constexpr char kOp[] = "CachedAttention";
  RETURN_IF_ERROR(
      CheckCachedAttention(s, first, count, most, q, keys, values, out));
  if (s.key_width + s.value_width > kMostWidths || s.heads > kMostHeads) {
    return absl::InvalidArgumentError(
        absl::StrCat(kOp, ": ", s.heads, " heads of widths ", s.key_width,
                     " and ", s.value_width, ", on CUDA at most ", kMostHeads,
                     " of ", kMostWidths, " together"));
  }
  if (q.rows == 0 || s.heads == 0 || s.value_width == 0) {
    return absl::OkStatus();
  }
  Arguments a;
  a.first = first.data;
  a.count = count.data;
  a.q = q;
  a.keys = keys;
  a.values = values;
  a.out = out;
  a.key_width = static_cast<int>(s.key_width);
  a.value_width = static_cast<int>(s.value_width);
  a.key_group = static_cast<int>(s.heads / s.key_heads);
  a.value_group = static_cast<int>(s.heads / s.value_heads);
  a.scale = s.scale;
  const dim3 grid(static_cast<unsigned>(q.rows),
                  static_cast<unsigned>(s.heads));
  const int64_t shared_floats = kTile + s.key_width + s.value_width;
  return Launch(kOp,
                Shape(grid, dim3(kThreads),
                      shared_floats * static_cast<int64_t>(sizeof(float))),
                CachedAttentionKernel, a);
}

}  // namespace comera::kernels
