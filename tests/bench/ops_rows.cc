// Measures lookups of embedding rows, and the optimiser.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "tests/bench/ops_bench.h"

namespace comera::kernels {
namespace {

// Looks up 2,000 rows of the six-encoder's table, evenly spread: 20 of each of
// 100 suffixes.
void BM_TtmLookup(benchmark::State& state) {
  Bench b;
  const TtmTables t = {1, 320, 16, 100, 48, 32, true};
  const int64_t count = 2000;
  std::vector<int32_t> left(count), rows(count), start(101);
  for (int64_t q = 0; q < count; ++q) {
    left[q] = q % 20 * 16;
    rows[q] = (q * 77) % count;
  }
  for (int64_t s = 0; s <= 100; ++s) start[s] = s * 20;
  const TtmPairs pairs = {b.buffers.I(left), b.buffers.I(rows),
                          b.buffers.I(start)};
  float* p = b.buffers.Floats(320 * 16 * 32);
  float* s = b.buffers.Floats(32 * 100 * 48);
  const Matrix out = b.buffers.M(count, kHidden);
  float* gp = b.buffers.Floats(320 * 16 * 32);
  float* gs = b.buffers.Floats(32 * 100 * 48);
  b.Repeat(state, [&] {
    return state.range(0) == 0
               ? b.backend->TtmLookup(t, p, s, pairs, out)
               : b.backend->TtmLookupBackward(t, p, s, pairs, out, gp, gs);
  });
  Flops(state, (state.range(0) == 0 ? 2.0 : 4.0) * count * 24576);
}
BENCHMARK(BM_TtmLookup)->ArgName("backward")->Arg(0)->Arg(1)->UseRealTime();

void BM_Rows(benchmark::State& state) {
  Bench b;
  std::vector<int32_t> rows(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) rows[i] = (i * 7919) % 2000;
  const ConstIndices indices = b.buffers.I(rows);
  const Matrix table = b.buffers.M(2000, kHidden);
  const Matrix out = b.buffers.M(kTokens, kHidden);
  b.Repeat(state, [&] {
    return state.range(0) == 0 ? b.backend->GatherRows(table, indices, out)
                               : b.backend->ScatterAddRows(out, indices, table);
  });
  Floats(state, 2.0 * kTokens * kHidden);
}
BENCHMARK(BM_Rows)->ArgName("scatter")->Arg(0)->Arg(1)->UseRealTime();

void BM_AdamW(benchmark::State& state) {
  Bench b;
  const int64_t size = state.range(0), segments = state.range(1);
  std::vector<AdamWSegment> rules;
  for (int64_t i = 0; i < segments; ++i) {
    rules.push_back({size / segments * i, size / segments, 1e-4f, 0.01f});
  }
  const Vector p = b.buffers.V(size), g = b.buffers.V(size);
  const Vector m = b.buffers.V(size), v = b.buffers.V(size);
  (void)b.backend->Fill(v, 0.5f);
  b.Repeat(state, [&] { return b.backend->AdamW({}, rules, p, g, m, v); });
  Floats(state, 7.0 * static_cast<double>(size));
}
BENCHMARK(BM_AdamW)->Args({1 << 20, 500})->Args({1 << 25, 8})->UseRealTime();

void BM_SumOfSquares(benchmark::State& state) {
  Bench b;
  const Vector x = b.buffers.V(1 << 24);
  float* sum = b.buffers.Floats(1);
  b.Repeat(state, [&] { return b.backend->SumOfSquares(x, sum); });
  Floats(state, 1 << 24);
}
BENCHMARK(BM_SumOfSquares)->UseRealTime();

}  // namespace
}  // namespace comera::kernels
