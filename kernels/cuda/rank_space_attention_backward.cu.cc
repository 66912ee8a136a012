// Formula: with q = q~ C_h of a head (C_h has the scale of the scores in it),
// U = dropout(P) v~ and G = grad_out E_h^T, the gradient of U, the two kernels'
// walks (device/attention_backward.h) give the gradients of q, k~ and v~; from
// there grad q~ += grad_q C_h^T, grad C_h = q~^T grad_q, grad E_h = U^T
// grad_out.
// Shapes: as in rank_space_attention.cu.cc; grad_q, grad_k and grad_v have no
// column of ones.
// Threads: a warp takes 16 queries (first kernel) or 16 keys (second kernel), a
// block up to eight warps and the heads of a group, blockIdx.y; the groups'
// parts are summed up by a third kernel.
#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/attention_backward.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/rank_space_factors.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rank_space_attention_plan.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kMostWarps = 8;
// Keys or queries whose scores a warp has in registers, and the least.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kTile =
    kPrecision == CudaPrecision::kFp32 || kWidth > 64 ? 16 : 32;
constexpr int kLeastTile = 16;
template <CudaPrecision kPrecision, int kWidth>
inline constexpr bool kInRegisters = kWidth <=
                                     (kPrecision == CudaPrecision::kFp32 ? 16
                                                                         : 32);
// Blocks for which a multiprocessor has registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kResident =
    kPrecision == CudaPrecision::kBf16&& kWidth <= 32 ? 2 : 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
// The same query gradients take a few registers more in sm_80's code.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kQueryResident = 1;
#else
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kQueryResident = kResident<kPrecision, kWidth>;
#endif

// Results of one group after the other.
struct Parts {
  float* data = nullptr;
  int64_t stride = 0;
  int64_t floats = 0;  // in a group
  int cols = 0;
};

struct Arguments {
  SequenceBlocks blocks;
  int total = 0;  // blocks
  DeviceDropout dropout;
  ConstMatrix q, k, v, grad_out;
  const void *c = nullptr, *c_transposed = nullptr, *e_transposed = nullptr;
  const float* log_sum = nullptr;
  float* delta = nullptr;         // (heads, tokens)
  float* grad_factors = nullptr;  // (chunks, heads, 2, kWidth, kWidth)
  Parts grad_q, grad_k, grad_v;
  int64_t tokens = 0;
  int heads = 0, heads_per_group = 0;
  int capacity = 0;     // keys in shared memory
  int drawn_words = 0;  // in a warp
};

// to (kWidth, kWidth) = or += a^T b of `rows` rows each, in shared memory. The
// block's warps share the result's tiles.
template <CudaPrecision kPrecision, int kWidth>
__device__ __forceinline__ void AddTransposedProduct(
    const Stored<kPrecision>* a, const Stored<kPrecision>* b, int rows,
    bool add, float* to) {
  constexpr int kStride = kRowStride<kWidth>;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int tile = static_cast<int>(threadIdx.x) / 32;
       tile < kWidth / 16 * (kWidth / 8); tile += warps) {
    const int row = tile / (kWidth / 8) * 16, col = tile % (kWidth / 8) * 8;
    float sums[4] = {0, 0, 0, 0};
#pragma unroll 2
    for (int k = 0; k < rows; k += 16) {
      Multiply(sums,
               LoadATransposed<kPrecision>(a + k * kStride + row, kStride),
               LoadB<kPrecision>(b + k * kStride + col, kStride));
    }
    auto* const upper = reinterpret_cast<float2*>(
        to + (row + LaneGroup()) * kWidth + col + LanePair());
    auto* const lower = upper + 8 * kWidth / 2;
    const float2 x = add ? *upper : make_float2(0, 0);
    const float2 y = add ? *lower : make_float2(0, 0);
    *upper = make_float2(x.x + sums[0], x.y + sums[1]);
    *lower = make_float2(y.x + sums[2], y.y + sums[3]);
  }
}

template <CudaPrecision kPrecision, int kWidth>
__global__ void __launch_bounds__(32 * kMostWarps,
                                  kQueryResident<kPrecision, kWidth>)
    RankSpaceQueryGradientKernel(const __grid_constant__ Arguments a) {
  WaitForEarlierKernels();
  constexpr int kStride = kRowStride<kWidth>;
  constexpr int kKeys = kTile<kPrecision, kWidth>;
  using Shared = HeldRows<kPrecision, kWidth, false>;
  using Held = HeldRows<kPrecision, kWidth, kInRegisters<kPrecision, kWidth>>;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* const queries = DynamicShared<Stored<kPrecision>>();
  auto* const grads = queries + a.blocks.rows * kStride;
  auto* const contexts = grads + a.blocks.rows * kStride;
  auto* const query_grads = contexts + a.blocks.rows * kStride;
  auto* const context_grads = query_grads + a.blocks.rows * kStride;
  auto* const keys = context_grads + a.blocks.rows * kStride;
  auto* const values = keys + a.capacity * kStride;
  uint32_t* drawn = reinterpret_cast<uint32_t*>(values + a.capacity * kStride) +
                    warp * a.drawn_words;
  if (a.drawn_words == 0) drawn = nullptr;
  const int own = 16 * warp * kStride;  // rows of the warp
  const TileDropout dropout(a.dropout, a.heads);
  const int first_head = static_cast<int>(blockIdx.y) * a.heads_per_group;
  const int last_head = min(a.heads, first_head + a.heads_per_group);
  float* const factors =
      a.grad_factors +
      (int64_t{blockIdx.x} * a.heads + first_head) * 2 * kWidth * kWidth;

  bool add = false;
  for (int i = static_cast<int>(blockIdx.x); i < a.total;
       i += static_cast<int>(gridDim.x)) {
    const SequenceBlock block = BlockOf(a.blocks, i);
    if (block.begin >= block.length) continue;
    const int there = min(a.blocks.rows, block.length - block.begin);
    const int begin = block.begin + 16 * warp;
    const int rows = min(16, block.length - begin);
    const int64_t first = block.first + begin;
    __syncthreads();
    LoadRows<kWidth>(a.q, block.first + block.begin, 0,
                     static_cast<int>(a.q.cols), a.blocks.rows, there, 1,
                     queries);
    LoadRows<kWidth>(a.grad_out, block.first + block.begin, 0,
                     static_cast<int>(a.grad_out.cols), a.blocks.rows, there, 1,
                     grads);
    const int64_t row =
        dropout.active() && rows > 0
            ? dropout.Row(first + min(WarpLane() % 16, rows - 1))
            : 0;
    __syncthreads();
    bool loaded = false;
    float grad_q[kWidth / 8][4];
    SetZero(grad_q);
    for (int head = first_head; head < last_head; ++head) {
      const auto walk = [&](const auto& see) {
        for (int key = 0; key < block.length; key += a.capacity) {
          const int count = min(a.capacity, block.length - key);
          if (!loaded || block.length > a.capacity) {
            __syncthreads();
            const int padded = (count + kKeys - 1) / kKeys * kKeys;
            LoadRows<kWidth>(a.k, block.first + key, 0,
                             static_cast<int>(a.k.cols), padded, count, 1,
                             keys);
            LoadRows<kWidth>(a.v, block.first + key, 0,
                             static_cast<int>(a.v.cols), padded, count, 1,
                             values);
            loaded = true;
            __syncthreads();
          }
          if (rows > 0) {
            see(KeyTiles<kPrecision>{keys, values, key, count, block.length});
          }
        }
      };
      float log_sum[2], delta[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int at = LaneGroup() + 8 * r;
        log_sum[r] = at < rows ? a.log_sum[head * a.tokens + first + at] : 0;
      }
      if (rows > 0) {
        StoreTimesFactor<kPrecision, kWidth>(Shared(queries + own), a.c, head,
                                             query_grads + own);
      }
      const Held of_queries(query_grads + own);
      // U, from a first walk over the keys
      float context[kWidth / 8][4];
      SetZero(context);
      walk([&](const KeyTiles<kPrecision>& tiles) {
        AddContext<kPrecision, kWidth, kKeys>(
            of_queries, tiles, log_sum, dropout, row + head, drawn, context);
      });
      if (rows > 0) {
        StoreTimesFactor<kPrecision, kWidth>(
            Shared(grads + own), a.e_transposed, head, context_grads + own);
      }
      // D
      const Held of_grads(context_grads + own);
      RowDots<kWidth>(context, context_grads + own, delta);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        delta[r] *= dropout.scale();
        const int at = LaneGroup() + 8 * r;
        if (WarpLane() % 4 == 0 && at < rows) {
          a.delta[head * a.tokens + first + at] = delta[r];
        }
      }
      StoreSums<kWidth>(context, dropout.scale(), contexts + own);
      // grad_q, from a second walk
      float sums[kWidth / 8][4];
      SetZero(sums);
      walk([&](const KeyTiles<kPrecision>& tiles) {
        AddQueryGradients<kPrecision, kWidth, kKeys>(
            of_queries, of_grads, tiles, log_sum, delta, dropout, row + head,
            drawn, sums);
      });
      __syncwarp();
      const Shared made(sums, query_grads + own);
      if (rows > 0) {
        if constexpr (kInRegisters<kPrecision, kWidth>) {
          AddTimesFactor<kPrecision, kWidth>(
              SumsAsRows<kPrecision, kWidth>(sums), a.c_transposed, head,
              grad_q);
        } else {
          AddTimesFactor<kPrecision, kWidth>(made, a.c_transposed, head,
                                             grad_q);
        }
      }
      __syncthreads();
      // grad C_h and grad E_h, of the whole block
      float* const to = factors + (head - first_head) * 2 * kWidth * kWidth;
      const int padded = (there + 15) / 16 * 16;
      AddTransposedProduct<kPrecision, kWidth>(queries, query_grads, padded,
                                               add, to);
      AddTransposedProduct<kPrecision, kWidth>(contexts, grads, padded, add,
                                               to + kWidth * kWidth);
      __syncthreads();
    }
    add = true;
    if (rows > 0) {
      WriteSums<kWidth>(grad_q, 1, rows, a.grad_q.cols,
                        a.grad_q.data + blockIdx.y * a.grad_q.floats +
                            first * a.grad_q.stride,
                        a.grad_q.stride);
    }
  }
  if (add) return;
  for (int i = static_cast<int>(threadIdx.x);
       i < (last_head - first_head) * 2 * kWidth * kWidth;
       i += static_cast<int>(blockDim.x)) {
    factors[i] = 0;
  }
}

template <CudaPrecision kPrecision, int kWidth>
__global__ void __launch_bounds__(32 * kMostWarps,
                                  kResident<kPrecision, kWidth>)
    RankSpaceKeyGradientKernel(const __grid_constant__ Arguments a) {
  WaitForEarlierKernels();
  constexpr int kStride = kRowStride<kWidth>;
  constexpr int kQueries = kTile<kPrecision, kWidth>;
  using Shared = HeldRows<kPrecision, kWidth, false>;
  using Held = HeldRows<kPrecision, kWidth, kInRegisters<kPrecision, kWidth>>;
  const SequenceBlock block = BlockOf(a.blocks, blockIdx.x);
  if (block.begin >= block.length) return;
  const int step = a.blocks.rows;
  auto* const keys = DynamicShared<Stored<kPrecision>>();
  auto* const values = keys + step * kStride;
  auto* const queries = values + step * kStride;
  auto* const grads = queries + step * kStride;
  auto* const of_queries = grads + step * kStride;
  auto* const of_grads = of_queries + step * kStride;
  auto* const sums = reinterpret_cast<float2*>(of_grads + step * kStride);
  LoadRows<kWidth>(a.k, block.first + block.begin, 0,
                   static_cast<int>(a.k.cols), step, block.length - block.begin,
                   1, keys);
  LoadRows<kWidth>(a.v, block.first + block.begin, 0,
                   static_cast<int>(a.v.cols), step, block.length - block.begin,
                   1, values);
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int own = 16 * warp * kStride;
  const int begin = block.begin + 16 * warp;
  const int rows = min(16, block.length - begin);
  const Held key_rows(keys + own), value_rows(values + own);
  const TileDropout dropout(a.dropout, a.heads);
  const int first_head = static_cast<int>(blockIdx.y) * a.heads_per_group;
  const int last_head = min(a.heads, first_head + a.heads_per_group);
  float grad_keys[kWidth / 8][4], grad_values[kWidth / 8][4];
  SetZero(grad_keys);
  SetZero(grad_values);
  for (int query = 0; query < block.length; query += step) {
    const int count = min(step, block.length - query);
    const int64_t token = block.first + query;
    LoadRows<kWidth>(a.q, token, 0, static_cast<int>(a.q.cols), step, count, 1,
                     queries);
    LoadRows<kWidth>(a.grad_out, token, 0, static_cast<int>(a.grad_out.cols),
                     step, count, 1, grads);
    __syncthreads();
    for (int head = first_head; head < last_head; ++head) {
      if (16 * warp < (count + kQueries - 1) / kQueries * kQueries) {
        StoreTimesFactor<kPrecision, kWidth>(Shared(queries + own), a.c, head,
                                             of_queries + own);
        StoreTimesFactor<kPrecision, kWidth>(
            Shared(grads + own), a.e_transposed, head, of_grads + own);
      }
      for (int i = static_cast<int>(threadIdx.x); i < step;
           i += static_cast<int>(blockDim.x)) {
        const int64_t at = head * a.tokens + token + i;
        sums[i] = i < count ? make_float2(a.log_sum[at], a.delta[at])
                            : make_float2(INFINITY, 0);
      }
      __syncthreads();
      if (rows > 0) {
        AddKeyGradients<kPrecision, kWidth, kQueries>(
            key_rows, value_rows, begin,
            QueryTiles<kPrecision>{of_queries, of_grads, sums, token, head,
                                   count},
            dropout, grad_keys, grad_values);
      }
      __syncthreads();
    }
  }
  if (rows <= 0) return;
  const int64_t first = block.first + begin;
  WriteSums<kWidth>(
      grad_keys, 1, rows, a.grad_k.cols,
      a.grad_k.data + blockIdx.y * a.grad_k.floats + first * a.grad_k.stride,
      a.grad_k.stride);
  WriteSums<kWidth>(
      grad_values, dropout.scale(), rows, a.grad_v.cols,
      a.grad_v.data + blockIdx.y * a.grad_v.floats + first * a.grad_v.stride,
      a.grad_v.stride);
}

// to = scale * the sum of `count` parts in their order; element (i, j) of a
// part lies at i / run * run_stride + i % run * row_stride + j.
struct Sum {
  const float* parts = nullptr;
  int64_t count = 0, part_floats = 0;
  int64_t run = 1, run_stride = 0, row_stride = 0;
  float scale = 1;
  Matrix to;
};
struct Sums {
  Sum of[5];
};
__global__ void __launch_bounds__(256)
    RankSpaceSumKernel(const __grid_constant__ Sums sums) {
  WaitForEarlierKernels();
  const Sum& s = sums.of[blockIdx.y];
  for (int64_t at = int64_t{blockIdx.x} * 256 + threadIdx.x;
       at < s.to.rows * s.to.cols; at += int64_t{gridDim.x} * 256) {
    const int64_t i = at / s.to.cols, j = at % s.to.cols;
    const float* const from =
        s.parts + i / s.run * s.run_stride + i % s.run * s.row_stride + j;
    float sum = 0;
#pragma unroll 4
    for (int64_t p = 0; p < s.count; ++p) sum += from[p * s.part_floats];
    s.to.data[i * s.to.stride + j] = s.scale * sum;
  }
}

// Where the groups write, and, if they are several, what then is summed up.
Parts PartsOf(const RankSpacePlan& plan, Matrix to, float* partial, Sum* sum) {
  if (plan.groups == 1) {
    return {to.data, to.stride, 0, static_cast<int>(to.cols)};
  }
  sum->parts = partial;
  sum->count = plan.groups;
  sum->part_floats = to.rows * to.cols;
  sum->row_stride = to.cols;
  sum->run = to.rows;
  sum->to = to;
  return {partial, to.cols, to.rows * to.cols, static_cast<int>(to.cols)};
}

}  // namespace

absl::Status CudaBackend::RankSpaceAttentionBackward(
    const RankSpaceAttentionShape& s, const DropoutKey& key,
    ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
    ConstMatrix c, ConstMatrix e, const float* log_sum, ConstMatrix grad_out,
    Matrix grad_q, Matrix grad_k, Matrix grad_v, Matrix grad_c, Matrix grad_e,
    void* workspace) {
  constexpr char kOp[] = "RankSpaceAttentionBackward";
  RETURN_IF_ERROR(CheckRankSpaceAttention(kOp, s, key, offsets, q, k, v, c, e,
                                          log_sum, workspace));
  const AttentionShape& t = s.attention;
  RETURN_IF_ERROR(
      CheckMatrix(kOp, "grad_out", grad_out, t.tokens, s.output_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_q", grad_q, t.tokens, s.query_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_k", grad_k, t.tokens, s.key_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_v", grad_v, t.tokens, s.value_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_c", grad_c, c.rows, c.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_e", grad_e, e.rows, e.cols));

  const int64_t shared = SharedBytesPerBlock(options_.device);
  const RankSpacePlan plan(s, options_.precision, shared);
  const int64_t partial_rows = plan.groups > 1 ? plan.groups * t.tokens : 0;
  const RankSpaceWorkspace places(s, plan, partial_rows, workspace);
  const float scale = RankSpaceScoreScale(s);
  FactorPackings packings;
  packings.of[0] = {c, plan.q, false, scale, places.c};
  packings.of[1] = {c, plan.q, true, scale, places.c_transposed};
  packings.of[2] = {e, plan.v, true, 1, places.e_transposed};

  Sums sums;
  const int64_t square = int64_t{plan.width} * plan.width;
  const int64_t chunks = t.tokens == 0 ? 0 : plan.chunks;
  const int64_t chunk_floats = t.heads * 2 * square;
  sums.of[0] = {places.grad_factors, chunks,     chunk_floats, plan.q,
                2 * square,          plan.width, scale,        grad_c};
  sums.of[1] = {places.grad_factors + square,
                chunks,
                chunk_floats,
                plan.v,
                2 * square,
                plan.width,
                1,
                grad_e};
  Arguments a;
  a.blocks = {offsets.data,
              static_cast<int>(BlocksPerSequence(t, 16 * plan.warps)),
              16 * plan.warps};
  a.total = static_cast<int>(plan.blocks);
  a.dropout = MakeDeviceDropout(key);
  a.q = q;
  a.k = k;
  a.v = v;
  a.grad_out = grad_out;
  a.c = places.c;
  a.c_transposed = places.c_transposed;
  a.e_transposed = places.e_transposed;
  a.log_sum = log_sum;
  a.delta = places.delta;
  a.grad_factors = places.grad_factors;
  a.grad_q = PartsOf(plan, grad_q, places.grad_q, &sums.of[2]);
  a.grad_k = PartsOf(plan, grad_k, places.grad_k, &sums.of[3]);
  a.grad_v = PartsOf(plan, grad_v, places.grad_v, &sums.of[4]);
  a.tokens = t.tokens;
  a.heads = static_cast<int>(t.heads);
  a.heads_per_group = plan.heads_per_group;
  if (t.max_length <= kMostDrawn && a.dropout.threshold > 0) {
    a.drawn_words =
        32 * static_cast<int>((t.max_length + kLeastTile - 1) / kLeastTile);
  }
  if (t.tokens > 0) {
    RETURN_IF_ERROR(WithWidth(
        options_.precision, plan.width,
        [&](auto precision, auto padded) -> absl::Status {
          constexpr CudaPrecision kPrecision = precision();
          constexpr int kWidth = padded();
          constexpr int64_t kRow = RowsBytes<kPrecision, kWidth>(1);
          RETURN_IF_ERROR(
              Launch("PackFactorsKernel",
                     Shape(dim3(Blocks(t.heads * kFactorParts<kWidth>, 256), 3),
                           dim3(256)),
                     PackFactorsKernel<kPrecision, kWidth>, packings, a.heads));
          const dim3 threads(32 * plan.warps);
          const int64_t fixed =
              5 * a.blocks.rows * kRow + plan.warps * 4 * a.drawn_words;
          a.capacity = KeyCapacity(t.max_length, 32, kTile<kPrecision, kWidth>,
                                   shared, fixed, 2 * kRow);
          RETURN_IF_ERROR(Launch(
              "RankSpaceQueryGradientKernel",
              Shape(dim3(static_cast<unsigned>(plan.chunks), plan.groups),
                    threads, fixed + 2 * a.capacity * kRow),
              RankSpaceQueryGradientKernel<kPrecision, kWidth>, a));
          return Launch(
              "RankSpaceKeyGradientKernel",
              Shape(dim3(static_cast<unsigned>(plan.blocks), plan.groups),
                    threads, a.blocks.rows * (6 * kRow + 8)),
              RankSpaceKeyGradientKernel<kPrecision, kWidth>, a);
        }));
  }
  const int64_t most = std::max(
      std::max(grad_c.rows * grad_c.cols, grad_e.rows * grad_e.cols),
      plan.groups > 1
          ? t.tokens * std::max({grad_q.cols, grad_k.cols, grad_v.cols})
          : 0);
  return Launch(
      "RankSpaceSumKernel",
      Shape(dim3(Blocks(most, 256, 1024), plan.groups > 1 ? 5 : 2), dim3(256)),
      RankSpaceSumKernel, sums);
}

}  // namespace comera::kernels
