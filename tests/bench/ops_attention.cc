// Measures attention, ordinary and in rank space.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "tests/bench/ops_bench.h"

namespace comera::kernels {
namespace {

// Sequences of one length, kTokens tokens in all, and heads of width 64.
struct AttentionBench : Bench {
  explicit AttentionBench(int64_t percent, int64_t length = 128,
                          int64_t heads = 12)
      : shape{kTokens / length, kTokens, length, heads, 64} {
    std::vector<int32_t> ends;
    for (int64_t i = 0; i <= shape.sequences; ++i) {
      ends.push_back(static_cast<int32_t>(length * i));
    }
    offsets = buffers.I(ends);
    key.rate = static_cast<float>(percent) / 100;
    key.state = buffers.State();
  }
  const AttentionShape shape;
  ConstIndices offsets;
  DropoutKey key;
};

void BM_Attention(benchmark::State& state) {
  AttentionBench b(state.range(0), state.range(2), state.range(3));
  const AttentionShape& shape = b.shape;
  const int64_t hidden = shape.heads * shape.head_width;
  const double product = 2.0 * kTokens * shape.max_length * hidden;
  const Matrix q = b.buffers.M(kTokens, hidden);
  const Matrix k = b.buffers.M(kTokens, hidden);
  const Matrix v = b.buffers.M(kTokens, hidden);
  const Matrix out = b.buffers.M(kTokens, hidden);
  float* sums = b.buffers.Floats(shape.heads * kTokens);
  float* workspace =
      b.buffers.Floats(b.backend->AttentionWorkspaceBytes(shape) / 4);
  if (state.range(1) == 0) {
    b.Repeat(state, [&] {
      return b.backend->Attention(shape, b.key, b.offsets, q, k, v, sums, out,
                                  workspace);
    });
    Flops(state, 2 * product);
    return;
  }
  const Matrix gq = b.buffers.M(kTokens, hidden);
  const Matrix gk = b.buffers.M(kTokens, hidden);
  const Matrix gv = b.buffers.M(kTokens, hidden);
  b.Repeat(state, [&] {
    return b.backend->AttentionBackward(shape, b.key, b.offsets, q, k, v, sums,
                                        out, out, gq, gk, gv, workspace);
  });
  Flops(state, 5 * product);
}
BENCHMARK(BM_Attention)
    ->ArgNames({"percent", "backward", "length", "heads"})
    ->ArgsProduct({{0, 10}, {0, 1}, {128}, {12}})
    ->ArgsProduct({{0}, {0, 1}, {128, 512}, {16}})
    ->UseRealTime();

void BM_RankSpaceAttention(benchmark::State& state) {
  AttentionBench b(state.range(0));
  constexpr int64_t kRank = 30, kHeads = 12;
  const RankSpaceAttentionShape shape = {b.shape, kRank, kRank, kRank, kRank};
  const Matrix q = b.buffers.M(kTokens, kRank + 1);
  const Matrix k = b.buffers.M(kTokens, kRank + 1);
  const Matrix v = b.buffers.M(kTokens, kRank + 1);
  const Matrix c = b.buffers.M(kHeads * (kRank + 1), kRank + 1);
  const Matrix e = b.buffers.M(kHeads * (kRank + 1), kRank);
  const Matrix out = b.buffers.M(kTokens, kRank);
  float* sums = b.buffers.Floats(kHeads * kTokens);
  float* workspace =
      b.buffers.Floats(b.backend->RankSpaceAttentionWorkspaceBytes(shape) / 4);
  const double scores = 2.0 * 32 * kHeads * 128 * 128 * kRank;
  if (state.range(1) == 0) {
    b.Repeat(state, [&] {
      return b.backend->RankSpaceAttention(shape, b.key, b.offsets, q, k, v, c,
                                           e, sums, out, workspace);
    });
    Flops(state, 2 * scores);
    return;
  }
  const Matrix gq = b.buffers.M(kTokens, kRank);
  const Matrix gk = b.buffers.M(kTokens, kRank);
  const Matrix gv = b.buffers.M(kTokens, kRank);
  const Matrix gc = b.buffers.M(kHeads * (kRank + 1), kRank + 1);
  const Matrix ge = b.buffers.M(kHeads * (kRank + 1), kRank);
  b.Repeat(state, [&] {
    return b.backend->RankSpaceAttentionBackward(shape, b.key, b.offsets, q, k,
                                                 v, c, e, sums, out, gq, gk, gv,
                                                 gc, ge, workspace);
  });
  Flops(state, 5 * scores);
}
BENCHMARK(BM_RankSpaceAttention)
    ->ArgNames({"percent", "backward"})
    ->ArgsProduct({{0, 10}, {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace comera::kernels
