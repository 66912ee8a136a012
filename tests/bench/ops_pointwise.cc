// Measures operations that read and write each element once.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "tests/bench/ops_bench.h"

namespace comera::kernels {
namespace {

void BM_ResidualLayerNorm(benchmark::State& state) {
  Bench b;
  DropoutKey key;
  key.rate = static_cast<float>(state.range(0)) / 100;
  key.state = b.buffers.State();
  const Matrix x = b.buffers.M(kTokens, kHidden);
  const Matrix r = b.buffers.M(kTokens, kHidden);
  const Matrix n = b.buffers.M(kTokens, kHidden);
  const Matrix y = b.buffers.M(kTokens, kHidden);
  const Vector gamma = b.buffers.V(kHidden), beta = b.buffers.V(kHidden);
  const Vector deviation = b.buffers.V(kTokens);
  const double floats = 4.0 * kTokens * kHidden;
  Floats(state, floats);
  if (state.range(1) == 0) {
    b.Repeat(state, [&] {
      return b.backend->ResidualLayerNorm(key, x, r, gamma, beta, 1e-9f, n,
                                          deviation, y);
    });
    return;
  }
  b.Repeat(state, [&] {
    return b.backend->ResidualLayerNormBackward(key, y, n, deviation, gamma, x,
                                                r, gamma, beta);
  });
}
BENCHMARK(BM_ResidualLayerNorm)
    ->ArgNames({"percent", "backward"})
    ->ArgsProduct({{0, 10}, {0, 1}})
    ->UseRealTime();

void BM_Gelu(benchmark::State& state) {
  Bench b;
  const Matrix x = b.buffers.M(kTokens, 3072), y = b.buffers.M(kTokens, 3072);
  b.Repeat(state, [&] {
    return state.range(0) == 0
               ? b.backend->Activate(Activation::kGelu, x, y)
               : b.backend->ActivateBackward(Activation::kGelu, x, y, y);
  });
  Floats(state, (state.range(0) == 0 ? 2.0 : 3.0) * kTokens * 3072);
}
BENCHMARK(BM_Gelu)->ArgName("backward")->Arg(0)->Arg(1)->UseRealTime();

void BM_Dropout(benchmark::State& state) {
  Bench b;
  const StepState* step = b.buffers.State();
  const Matrix x = b.buffers.M(kTokens, kHidden);
  b.Repeat(state, [&] { return b.backend->Dropout({0.1f, 1, 0, step}, x, x); });
  Floats(state, 2.0 * kTokens * kHidden);
}
BENCHMARK(BM_Dropout)->UseRealTime();

void BM_BiasGradient(benchmark::State& state) {
  Bench b;
  const Matrix x = b.buffers.M(kTokens, 3072);
  const Vector bias = b.buffers.V(3072);
  b.Repeat(state, [&] { return b.backend->BiasGradient(x, bias); });
  Floats(state, 1.0 * kTokens * 3072);
}
BENCHMARK(BM_BiasGradient)->UseRealTime();

void BM_AddBias(benchmark::State& state) {
  Bench b;
  const Matrix x = b.buffers.M(kTokens, 3072);
  const Vector bias = b.buffers.V(3072);
  b.Repeat(state, [&] { return b.backend->AddBias(bias, x); });
  Floats(state, 2.0 * kTokens * 3072);
}
BENCHMARK(BM_AddBias)->UseRealTime();

void BM_SoftmaxCrossEntropy(benchmark::State& state) {
  Bench b;
  const int64_t rows = 512, cols = state.range(0);
  const Matrix logits = b.buffers.M(rows, cols);
  const ConstIndices labels = b.buffers.I(std::vector<int32_t>(rows, 7));
  float* totals = b.buffers.Floats(3);
  const Matrix grad = b.buffers.M(rows, cols);
  b.Repeat(state, [&] {
    return b.backend->SoftmaxCrossEntropy(logits, labels, grad, totals);
  });
  Floats(state, 2.0 * rows * cols);
}
BENCHMARK(BM_SoftmaxCrossEntropy)->Arg(4096)->Arg(30522)->UseRealTime();

}  // namespace
}  // namespace comera::kernels
