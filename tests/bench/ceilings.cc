// Measures what the machine can do at best: multiply-adds in registers, and
// memory streamed by all threads. The other benchmarks' counters compare with
// these.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstdint>
#include <vector>

#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// The number of independent sums; enough to hide the latency of two
// multiply-add units.
constexpr int kLanes = 16;
constexpr int kChains = 12;

COMERA_CLONES
float MultiplyAdds(int64_t rounds, float factor) {
  float sums[kChains][kLanes];
  for (int c = 0; c < kChains; ++c) {
    for (int i = 0; i < kLanes; ++i) sums[c][i] = static_cast<float>(c + i);
  }
  for (int64_t r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) {
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) sums[c][i] = sums[c][i] * factor + 1.0f;
    }
  }
  float total = 0;
  for (int c = 0; c < kChains; ++c) {
    for (int i = 0; i < kLanes; ++i) total += sums[c][i];
  }
  return total;
}

void BM_PeakMultiplyAdds(benchmark::State& state) {
  constexpr int64_t kRounds = 1 << 20;
  const int threads = omp_get_max_threads();
  for (auto _ : state) {
    float total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total)
    for (int i = 0; i < threads; ++i) total += MultiplyAdds(kRounds, 0.5f);
    benchmark::DoNotOptimize(total);
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * threads * kRounds * kChains * kLanes,
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_PeakMultiplyAdds)->UseRealTime();

COMERA_CLONES
void Triad(int64_t n, const float* b, const float* c, float* a) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 0.5f * c[i];
}

// Runs McCalpin's STREAM triad over arrays far larger than the caches; counts
// the two arrays read and the one written.
void BM_StreamTriad(benchmark::State& state) {
  constexpr int64_t kFloats = int64_t{1} << 26;
  const int threads = omp_get_max_threads();
  std::vector<float> a(kFloats, 0), b(kFloats, 1), c(kFloats, 2);
  for (auto _ : state) {
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; ++i) {
      const int64_t first = kFloats * i / threads;
      const int64_t last = kFloats * (i + 1) / threads;
      Triad(last - first, &b[first], &c[first], &a[first]);
    }
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      3 * 4e-9 * kFloats, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_StreamTriad)->UseRealTime();

}  // namespace
}  // namespace comera::kernels
