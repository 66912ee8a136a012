// Formula: for each head h, Q = q~ C_h, P = softmax(Q k~^T), U = dropout(P) v~
// and out += U E_h; C_h has the scale of the scores in it.
// Shapes: q~, k~, v~ (tokens, rank + 1 of each); c (heads * (query_rank + 1),
// key_rank + 1), e (heads * (value_rank + 1), output_rank), out (tokens,
// output_rank), log_sum (heads, tokens).
// Threads: a block has the keys and values of a sequence in shared memory, as
// far as they fit, and a few tiles of 16 queries; a warp takes one tile and a
// share of the heads, and goes on from product to product without leaving its
// registers.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/attention_forward.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/rank_space_factors.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rank_space_attention_plan.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kMostTiles = 2;
constexpr int kMostShares = 4;
// Keys whose scores a warp has in registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kKeys = kWidth <= 32   ? 64
                             : kWidth <= 64 ? 32
                                            : 16;
template <CudaPrecision kPrecision, int kWidth>
inline constexpr bool kInRegisters = kWidth <=
                                     (kPrecision == CudaPrecision::kTf32 ? 32
                                                                         : 64);
// Blocks for which a multiprocessor has registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kResident =
    kPrecision == CudaPrecision::kBf16&& kWidth <= 32 ? 2 : 1;

struct Arguments {
  SequenceBlocks blocks;
  DeviceDropout dropout;
  ConstMatrix q, k, v;
  const void* c = nullptr;  // packed, times the scale of the scores
  const void* e = nullptr;  // packed
  Matrix out;
  float* log_sum = nullptr;
  int64_t tokens = 0;
  int heads = 0;
  int shares = 1, heads_per_share = 0;
  int capacity = 0;  // keys in shared memory
};

template <CudaPrecision kPrecision, int kWidth>
__global__ void __launch_bounds__(32 * kMostTiles * kMostShares,
                                  kResident<kPrecision, kWidth>)
    RankSpaceAttentionKernel(const __grid_constant__ Arguments a) {
  WaitForEarlierKernels();
  const SequenceBlock block = BlockOf(a.blocks, blockIdx.x);
  if (block.begin >= block.length) return;
  constexpr int kStride = kRowStride<kWidth>;
  constexpr int kTile = kKeys<kPrecision, kWidth>;
  const int tiles = a.blocks.rows / 16;
  auto* const queries = DynamicShared<Stored<kPrecision>>();
  auto* const held = queries + a.blocks.rows * kStride;  // by warp, if at all
  auto* const keys = held + (kInRegisters<kPrecision, kWidth>
                                 ? 0
                                 : static_cast<int>(blockDim.x) / 2 * kStride);
  auto* const values = keys + a.capacity * kStride;
  LoadRows<kWidth>(a.q, block.first + block.begin, 0,
                   static_cast<int>(a.q.cols), a.blocks.rows,
                   block.length - block.begin, 1, queries);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int tile = warp % tiles, share = warp / tiles;
  const int begin = block.begin + 16 * tile;
  const int rows = min(16, block.length - begin);
  const int64_t first = block.first + begin;
  const TileDropout dropout(a.dropout, a.heads);
  const int64_t row = dropout.active() && rows > 0
                          ? dropout.Row(first + min(WarpLane() % 16, rows - 1))
                          : 0;
  float out[kWidth / 8][4];
  SetZero(out);
  for (int i = 0; i < a.heads_per_share; ++i) {
    const int head = share * a.heads_per_share + i;
    const bool active = rows > 0 && head < a.heads;
    if (i == 0) __syncthreads();
    // Q = q~ C_h
    float sums[kWidth / 8][4];
    SetZero(sums);
    if (active) {
      AddTimesFactor<kPrecision, kWidth>(
          HeldRows<kPrecision, kWidth, false>(queries + 16 * tile * kStride),
          a.c, head, sums);
    }
    const HeldRows<kPrecision, kWidth, kInRegisters<kPrecision, kWidth>>
        of_head(sums, held + 16 * warp * kStride);
    // U, walking over the keys
    RunningSoftmax<kPrecision, kWidth> softmax;
    for (int key = 0; key < block.length; key += a.capacity) {
      const int count = min(a.capacity, block.length - key);
      if (i == 0 || block.length > a.capacity) {
        __syncthreads();
        const int padded = (count + kTile - 1) / kTile * kTile;
        LoadRows<kWidth>(a.k, block.first + key, 0, static_cast<int>(a.k.cols),
                         padded, count, 1, keys);
        LoadRows<kWidth>(a.v, block.first + key, 0, static_cast<int>(a.v.cols),
                         padded, count, 1, values);
        __syncthreads();
      }
      if (active) {
        softmax.template See<kTile>(
            of_head,
            KeyTiles<kPrecision>{keys, values, key, count, block.length},
            dropout, row + head);
      }
    }
    if (!active) continue;
    // log_sum, and out += U E_h
    float log_sum[2];
    softmax.Finish(dropout.scale(), log_sum);
    if (WarpLane() % 4 == 0) {
      float* const to = a.log_sum + head * a.tokens + first;
      if (LaneGroup() < rows) to[LaneGroup()] = log_sum[0];
      if (LaneGroup() + 8 < rows) to[LaneGroup() + 8] = log_sum[1];
    }
    if constexpr (kInRegisters<kPrecision, kWidth>) {
      AddTimesFactor<kPrecision, kWidth>(
          SumsAsRows<kPrecision, kWidth>(softmax.context()), a.e, head, out);
    } else {
      __syncwarp();
      AddTimesFactor<kPrecision, kWidth>(
          HeldRows<kPrecision, kWidth, false>(softmax.context(),
                                              held + 16 * warp * kStride),
          a.e, head, out);
      __syncwarp();
    }
  }

  __syncthreads();
  // sum the shares of the heads, in their order
  auto* const parts = DynamicShared<float>();  // (shares, rows, kWidth)
  WriteSums<kWidth>(out, 1, 16, kWidth,
                    parts + (share * tiles + tile) * 16 * kWidth, kWidth);
  __syncthreads();
  const int there = min(a.blocks.rows, block.length - block.begin);
  const int cols = static_cast<int>(a.out.cols);
  for (int at = static_cast<int>(threadIdx.x); at < there * kWidth;
       at += static_cast<int>(blockDim.x)) {
    if (at % kWidth >= cols) continue;
    float sum = 0;
    for (int s = 0; s < a.shares; ++s) {
      sum += parts[s * a.blocks.rows * kWidth + at];
    }
    a.out.data[(block.first + block.begin + at / kWidth) * a.out.stride +
               at % kWidth] = sum;
  }
}

}  // namespace

int64_t CudaBackend::RankSpaceAttentionWorkspaceBytes(
    const RankSpaceAttentionShape& s) {
  const RankSpacePlan plan(s, options_.precision,
                           SharedBytesPerBlock(options_.device));
  return RankSpaceWorkspace(s, plan, MostPartialRows(s, plan), nullptr).bytes;
}

absl::Status CudaBackend::RankSpaceAttention(
    const RankSpaceAttentionShape& s, const DropoutKey& key,
    ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
    ConstMatrix c, ConstMatrix e, float* log_sum, Matrix out, void* workspace) {
  constexpr char kOp[] = "RankSpaceAttention";
  RETURN_IF_ERROR(CheckRankSpaceAttention(kOp, s, key, offsets, q, k, v, c, e,
                                          log_sum, workspace));
  const AttentionShape& t = s.attention;
  RETURN_IF_ERROR(CheckMatrix(kOp, "out", out, t.tokens, s.output_rank));
  if (t.tokens == 0) return absl::OkStatus();

  const int64_t shared = SharedBytesPerBlock(options_.device);
  const RankSpacePlan plan(s, options_.precision, shared);
  const RankSpaceWorkspace places(s, plan, 0, workspace);
  FactorPackings packings;
  packings.of[0] = {c, plan.q, false, RankSpaceScoreScale(s), places.c};
  packings.of[1] = {e, plan.v, false, 1, places.e};
  Arguments a;
  a.dropout = MakeDeviceDropout(key);
  a.q = q;
  a.k = k;
  a.v = v;
  a.c = places.c;
  a.e = places.e;
  a.out = out;
  a.log_sum = log_sum;
  a.tokens = t.tokens;
  a.heads = static_cast<int>(t.heads);
  a.shares = std::max(1, std::min(a.heads, kMostShares));
  a.heads_per_share = (a.heads + a.shares - 1) / a.shares;
  return WithWidth(
      options_.precision, plan.width,
      [&](auto precision, auto padded) -> absl::Status {
        constexpr CudaPrecision kPrecision = precision();
        constexpr int kWidth = padded();
        constexpr int64_t kRow = RowsBytes<kPrecision, kWidth>(1);
        RETURN_IF_ERROR(
            Launch("PackFactorsKernel",
                   Shape(dim3(Blocks(t.heads * kFactorParts<kWidth>, 256), 2),
                         dim3(256)),
                   PackFactorsKernel<kPrecision, kWidth>, packings, a.heads));
        constexpr int kTile = kKeys<kPrecision, kWidth>;
        const auto fixed_bytes = [&](int tiles) {
          const int held = kInRegisters<kPrecision, kWidth> ? 0 : a.shares;
          return 16 * tiles * (1 + held) * kRow;
        };
        // A block has one tile of queries where there are no more, or where a
        // second leaves no room for keys.
        const bool one = t.max_length <= 16 ||
                         fixed_bytes(kMostTiles) + 2 * kTile * kRow > shared;
        const int tiles = one ? 1 : kMostTiles;
        a.blocks = {offsets.data,
                    static_cast<int>(BlocksPerSequence(t, 16 * tiles)),
                    16 * tiles};
        const unsigned threads = 32 * tiles * a.shares;
        const int64_t fixed = fixed_bytes(tiles);
        a.capacity =
            KeyCapacity(t.max_length, kTile, kTile, shared, fixed, 2 * kRow);
        const int64_t parts = int64_t{threads} / 2 * kWidth * 4;
        return Launch(kOp,
                      Shape(dim3(static_cast<unsigned>(t.sequences *
                                                       a.blocks.per_sequence)),
                            dim3(threads),
                            std::max(parts, fixed + 2 * a.capacity * kRow)),
                      RankSpaceAttentionKernel<kPrecision, kWidth>, a);
      });
}

}  // namespace comera::kernels
