// Measures what decoders need beside the operations of encoders: causal
// attention with shared keys, rotation, RMS normalisation and gates.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "tests/bench/ops_bench.h"

namespace comera::kernels {
namespace {

constexpr int64_t kHeads = 12, kHeadWidth = 64;

// Sequences of state.range(0) tokens, state.range(1) heads of keys.
void BM_CausalAttention(benchmark::State& state) {
  Bench b;
  const int64_t length = state.range(0), kv_heads = state.range(1);
  const int64_t sequences = kTokens / length;
  const AttentionShape shape = {sequences,  kTokens,  length, kHeads,
                                kHeadWidth, kv_heads, true};
  std::vector<int32_t> ends;
  for (int64_t i = 0; i <= sequences; ++i) {
    ends.push_back(static_cast<int32_t>(length * i));
  }
  const ConstIndices offsets = b.buffers.I(ends);
  const int64_t key_columns = kv_heads * kHeadWidth;
  const Matrix q = b.buffers.M(kTokens, kHidden);
  const Matrix k = b.buffers.M(kTokens, key_columns);
  const Matrix v = b.buffers.M(kTokens, key_columns);
  const Matrix out = b.buffers.M(kTokens, kHidden);
  float* sums = b.buffers.Floats(kHeads * kTokens);
  float* workspace =
      b.buffers.Floats(b.backend->AttentionWorkspaceBytes(shape) / 4);
  // What is seen: half of all pairs of tokens.
  const double products = 1.0 * kTokens * static_cast<double>(length) * kHidden;
  if (state.range(2) == 0) {
    b.Repeat(state, [&] {
      return b.backend->Attention(shape, {}, offsets, q, k, v, sums, out,
                                  workspace);
    });
    Flops(state, 2 * products);
    return;
  }
  const Matrix gq = b.buffers.M(kTokens, kHidden);
  const Matrix gk = b.buffers.M(kTokens, key_columns);
  const Matrix gv = b.buffers.M(kTokens, key_columns);
  b.Repeat(state, [&] {
    return b.backend->AttentionBackward(shape, {}, offsets, q, k, v, sums, out,
                                        out, gq, gk, gv, workspace);
  });
  Flops(state, 5 * products);
}
BENCHMARK(BM_CausalAttention)
    ->ArgNames({"length", "kv_heads", "backward"})
    ->ArgsProduct({{128, 1024}, {2, 12}, {0, 1}})
    ->UseRealTime();

void BM_Rotate(benchmark::State& state) {
  Bench b;
  std::vector<int32_t> places;
  for (int32_t i = 0; i < kTokens; ++i) places.push_back(i % 1024);
  const ConstIndices positions = b.buffers.I(places);
  const Matrix x = b.buffers.M(kTokens, kHidden);
  b.Repeat(state, [&] {
    return b.backend->Rotate(kHeadWidth, 10000, false, positions, x);
  });
  Floats(state, 2.0 * kTokens * kHidden);
}
BENCHMARK(BM_Rotate)->UseRealTime();

void BM_RmsNorm(benchmark::State& state) {
  Bench b;
  const Matrix x = b.buffers.M(kTokens, kHidden);
  const Matrix n = b.buffers.M(kTokens, kHidden);
  const Matrix y = b.buffers.M(kTokens, kHidden);
  const Vector gamma = b.buffers.V(kHidden), deviation = b.buffers.V(kTokens);
  const bool backward = state.range(0) != 0;
  b.Repeat(state, [&] {
    return backward
               ? b.backend->RmsNormBackward(x, n, deviation, gamma, y, gamma)
               : b.backend->RmsNorm(x, gamma, 1e-6f, n, deviation, y);
  });
  Floats(state, (backward ? 4.0 : 3.0) * kTokens * kHidden);
}
BENCHMARK(BM_RmsNorm)->ArgName("backward")->Arg(0)->Arg(1)->UseRealTime();

void BM_Gated(benchmark::State& state) {
  Bench b;
  constexpr int64_t kWidth = 2048;
  const Matrix gate = b.buffers.M(kTokens, kWidth);
  const Matrix up = b.buffers.M(kTokens, kWidth);
  const Matrix y = b.buffers.M(kTokens, kWidth);
  const Matrix grad_gate = b.buffers.M(kTokens, kWidth);
  const Matrix grad_up = b.buffers.M(kTokens, kWidth);
  const bool backward = state.range(0) != 0;
  b.Repeat(state, [&] {
    return backward ? b.backend->GatedBackward(Activation::kSilu, gate, up, y,
                                               grad_gate, grad_up)
                    : b.backend->Gated(Activation::kSilu, gate, up, y);
  });
  Floats(state, (backward ? 5.0 : 3.0) * kTokens * kWidth);
}
BENCHMARK(BM_Gated)->ArgName("backward")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace comera::kernels
