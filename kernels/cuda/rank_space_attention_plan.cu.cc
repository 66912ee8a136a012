// How rank-space attention is split over blocks of threads, where its partial
// results lie in the workspace, and the check of its operands.
#include "kernels/cuda/rank_space_attention_plan.h"

#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Blocks of threads that keep a device busy.
constexpr int64_t kBusy = 256;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Groups for this many blocks of tokens; fewer the more blocks there are.
int64_t GroupsFor(int64_t heads, int64_t blocks) {
  const int64_t wanted = std::max<int64_t>(
      1, std::min(heads, CeilDivide(kBusy, std::max<int64_t>(1, blocks))));
  const int64_t each = CeilDivide(heads, wanted);
  return each == 0 ? 1 : CeilDivide(heads, each);
}

// Parts of the gradients of C and E: so many that they stay modest, and that a
// batch of 128 sequences needs no block twice.
int64_t MostChunks(int64_t width) { return width <= 32 ? 136 : 2048 / width; }

}  // namespace

RankSpacePlan::RankSpacePlan(const RankSpaceAttentionShape& s,
                             CudaPrecision precision, int64_t shared)
    : q(static_cast<int>(s.query_rank + 1)),
      k(static_cast<int>(s.key_rank + 1)),
      v(static_cast<int>(s.value_rank + 1)),
      o(static_cast<int>(s.output_rank)) {
  const int widest = std::max({q, k, v, o});
  width = widest <= 16 ? 16 : widest <= 32 ? 32 : widest <= 64 ? 64 : 128;
  // Six operands of a block's tokens lie in shared memory; even, since scores
  // are made 32 queries at a time.
  const int64_t row = (width + 8) * (precision == CudaPrecision::kBf16 ? 2 : 4);
  warps = 8;
  while (warps > 2 && (6 * 16 * warps * row > kAttentionSharedBytes ||
                       8 * warps >= s.attention.max_length)) {
    warps /= 2;
  }
  // Widths with scores of 16 queries, which are all that need so much, can do
  // with one warp.
  if (warps * (6 * 16 * row + kMostDrawnBytes) > shared) warps = 1;
  blocks = s.attention.sequences *
           CeilDivide(s.attention.max_length, int64_t{16} * warps);
  groups = static_cast<int>(GroupsFor(s.attention.heads, blocks));
  heads_per_group =
      static_cast<int>(CeilDivide(s.attention.heads, int64_t{groups}));
  chunks = std::min(blocks, MostChunks(width));
}

// Fewer blocks make more groups, but never more rows in all than these.
int64_t MostPartialRows(const RankSpaceAttentionShape& s,
                        const RankSpacePlan& plan) {
  const int64_t heads = s.attention.heads;
  int64_t most = 0;
  for (int64_t blocks = 1; blocks <= std::min(plan.blocks, kBusy); ++blocks) {
    const int64_t groups = GroupsFor(heads, blocks);
    // Blocks of tokens have at most 128.
    const int64_t tokens = std::min(s.attention.tokens, blocks * 128);
    if (groups > 1) most = std::max(most, groups * tokens);
  }
  return most;
}

RankSpaceWorkspace::RankSpaceWorkspace(const RankSpaceAttentionShape& s,
                                       const RankSpacePlan& plan,
                                       int64_t partial_rows, void* base) {
  const auto take = [&](int64_t size) {
    char* const at =
        base == nullptr ? nullptr : static_cast<char*>(base) + bytes;
    bytes += CeilDivide(size, 256) * 256;
    return at;
  };
  const auto floats = [&](int64_t count) {
    return reinterpret_cast<float*>(
        take(count * static_cast<int64_t>(sizeof(float))));
  };
  const int64_t heads = s.attention.heads;
  const int64_t factor = FactorBytes(heads, plan.width);
  c = take(factor);
  e = take(factor);
  c_transposed = take(factor);
  e_transposed = take(factor);
  delta = floats(heads * s.attention.tokens);
  grad_factors = floats(plan.chunks * heads * 2 * plan.width * plan.width);
  grad_q = floats(partial_rows * s.query_rank);
  grad_k = floats(partial_rows * s.key_rank);
  grad_v = floats(partial_rows * s.value_rank);
}

float RankSpaceScoreScale(const RankSpaceAttentionShape& s) {
  const auto width = static_cast<float>(s.attention.head_width);
  return width > 0 ? 1.0f / std::sqrt(width) : 0.0f;
}

absl::Status CheckRankSpaceAttention(
    const char* op, const RankSpaceAttentionShape& s, const DropoutKey& key,
    ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
    ConstMatrix c, ConstMatrix e, const float* log_sum, const void* workspace) {
  const AttentionShape& a = s.attention;
  RETURN_IF_ERROR(CheckAttention(op, a, offsets));
  RETURN_IF_ERROR(CheckEncoderAttention(op, a));
  RETURN_IF_ERROR(CheckDropout(op, key));
  RETURN_IF_ERROR(CheckMatrix(op, "q", q, a.tokens, s.query_rank + 1));
  RETURN_IF_ERROR(CheckMatrix(op, "k", k, a.tokens, s.key_rank + 1));
  RETURN_IF_ERROR(CheckMatrix(op, "v", v, a.tokens, s.value_rank + 1));
  RETURN_IF_ERROR(
      CheckMatrix(op, "c", c, a.heads * (s.query_rank + 1), s.key_rank + 1));
  RETURN_IF_ERROR(
      CheckMatrix(op, "e", e, a.heads * (s.value_rank + 1), s.output_rank));
  RETURN_IF_ERROR(CheckMemory(op, "log_sum", log_sum, a.heads * a.tokens));
  RETURN_IF_ERROR(CheckMemory(op, "workspace", workspace, a.tokens));
  RETURN_IF_ERROR(CheckAttentionWidth(op, "query rank + 1", q.cols));
  RETURN_IF_ERROR(CheckAttentionWidth(op, "key rank + 1", k.cols));
  RETURN_IF_ERROR(CheckAttentionWidth(op, "value rank + 1", v.cols));
  return CheckAttentionWidth(op, "output rank", s.output_rank);
}

}  // namespace comera::kernels
