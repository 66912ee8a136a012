// Measures matrix products and the contraction of cores.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "kernels/contraction/tt_chain.h"
#include "tests/bench/ops_bench.h"

namespace comera::kernels {
namespace {

void BM_Gemm(benchmark::State& state) {
  Bench b;
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3), tb = state.range(4);
  const Matrix a = ta ? b.buffers.M(k, m) : b.buffers.M(m, k);
  const Matrix x = tb ? b.buffers.M(n, k) : b.buffers.M(k, n);
  const Matrix c = b.buffers.M(m, n);
  b.Repeat(state, [&] { return b.backend->Gemm(ta, tb, 1, a, x, 0, c); });
  Flops(state, 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(BM_Gemm)
    ->ArgNames({"m", "n", "k", "ta", "tb"})
    ->Args({2048, 2048, 2048, 0, 0})
    ->Args({kTokens, 30, 768, 0, 0})
    ->Args({kTokens, 768, 30, 0, 0})
    ->Args({kTokens, 3072, 30, 0, 0})
    ->Args({kTokens, 30, 3072, 0, 0})
    ->Args({30, 3072, kTokens, 1, 0})
    ->Args({768, 30, kTokens, 1, 0})
    ->Args({kTokens, 30, 768, 0, 1})
    ->Args({kTokens, 768, 30, 0, 1})
    // A contraction of cores, small enough to show overhead.
    ->Args({12, 240, 12, 0, 0})
    ->Args({96, 240, 30, 0, 0})
    ->Args({96, 30, 240, 0, 1})
    ->Args({30, 240, 96, 1, 0})
    ->Args({32, 32, 32, 0, 0})
    ->Args({128, 128, 64, 0, 1})
    // Few rows by a transposed matrix (kernels/cpu/products/transposed_gemm.h):
    // cores of CodeBERT-LARGE, its logits, a layer's 512 tokens; then more.
    ->Args({128, 128, 1024, 0, 1})
    ->Args({88, 1920, 1024, 0, 1})
    ->Args({512, 128, 1024, 0, 1})
    ->Args({2048, 3072, 768, 0, 1})
    ->UseRealTime();

// Compares products of operands rounded to bfloat16 (arg bf16), conversion
// included, with float32, to find the sizes from which it pays
// (kernels/cpu/products/bf16_gemm.cc).
void BM_GemmBf16(benchmark::State& state) {
  Bench b(state.range(5) != 0 ? v1::TrainingSpec::BF16
                              : v1::TrainingSpec::FP32);
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3), tb = state.range(4);
  const Matrix a = ta ? b.buffers.M(k, m) : b.buffers.M(m, k);
  const Matrix x = tb ? b.buffers.M(n, k) : b.buffers.M(k, n);
  const Matrix c = b.buffers.M(m, n);
  b.Repeat(state, [&] { return b.backend->Gemm(ta, tb, 1, a, x, 0, c); });
  Flops(state, 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(BM_GemmBf16)
    ->ArgNames({"m", "n", "k", "ta", "tb", "bf16"})
    ->Apply([](benchmark::internal::Benchmark* benchmark) {
      for (const int bf16 : {0, 1}) {
        // The dense six-encoder: forward, weight gradient, data gradient.
        benchmark->Args({kTokens, 768, 768, 0, 0, bf16});
        benchmark->Args({kTokens, 3072, 768, 0, 0, bf16});
        benchmark->Args({768, 3072, kTokens, 1, 0, bf16});
        benchmark->Args({kTokens, 768, 3072, 0, 1, bf16});
        // Products with ranks of 64 and 128.
        benchmark->Args({kTokens, 64, 768, 0, 0, bf16});
        benchmark->Args({kTokens, 128, 1024, 0, 0, bf16});
        benchmark->Args({kTokens, 1024, 128, 0, 0, bf16});
        benchmark->Args({128, 1024, kTokens, 1, 0, bf16});
      }
    })
    ->UseRealTime();

void BM_TtChain(benchmark::State& state) {
  Bench b;
  const TtShape shape = {{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
  const TtChain chain = TtChain::Create(shape).value();
  std::vector<const float*> cores;
  for (int k = 0; k < shape.order(); ++k) {
    cores.push_back(b.buffers.Floats(shape.CoreSize(k)));
  }
  float* inner = b.buffers.Floats(chain.inner_size());
  float* prefix = b.buffers.Floats(chain.prefix_size());
  float* suffix = b.buffers.Floats(chain.suffix_size());
  b.Repeat(state, [&] {
    return chain.Forward(b.backend, cores, inner, prefix, suffix);
  });
  Flops(state, 2 * 1451520);
}
BENCHMARK(BM_TtChain)->UseRealTime();

}  // namespace
}  // namespace comera::kernels
