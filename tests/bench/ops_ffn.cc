// Measures the feed-forward layer between its rank vectors.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>

#include "tests/bench/ops_bench.h"

namespace comera::kernels {
namespace {

// The operands between the rank vectors of a feed-forward layer.
struct FfnBench : Bench {
  explicit FfnBench(int64_t r)
      : rank(r),
        t1(buffers.M(kTokens, r + 1)),
        b1(buffers.M(r + 1, kWidth)),
        a2(buffers.M(kWidth, r)),
        t2(buffers.M(kTokens, r)),
        grad_t1(buffers.M(kTokens, r)),
        grad_b1(buffers.M(r + 1, kWidth)),
        grad_a2(buffers.M(kWidth, r)) {}
  double Products(bool backward) const {
    const double r = static_cast<double>(rank);
    return 2.0 * kTokens * kWidth * (backward ? 5 * r + 2 : 2 * r + 1);
  }
  static constexpr int64_t kWidth = 4 * kHidden;
  const int64_t rank;
  const Matrix t1, b1, a2, t2, grad_t1, grad_b1, grad_a2;
};

void BM_RankSpaceFfn(benchmark::State& state) {
  FfnBench b(state.range(0));
  const bool backward = state.range(1) != 0;
  float* workspace = b.buffers.Floats(b.backend->RankSpaceFfnWorkspaceBytes(
                                          {kTokens, b.kWidth, b.rank, b.rank}) /
                                      4);
  b.Repeat(state, [&] {
    return backward
               ? b.backend->RankSpaceFfnBackward(b.t1, b.b1, b.a2, b.t2,
                                                 b.grad_t1, b.grad_b1,
                                                 b.grad_a2, workspace)
               : b.backend->RankSpaceFfn(b.t1, b.b1, b.a2, b.t2, workspace);
  });
  Flops(state, b.Products(backward));
}
BENCHMARK(BM_RankSpaceFfn)
    ->ArgNames({"rank", "backward"})
    ->ArgsProduct({{15, 30, 128, 256, 512}, {0, 1}})
    ->UseRealTime();

// The same, but with the hidden layer in memory, in blocks of 640 rows.
void BM_HiddenFfn(benchmark::State& state) {
  FfnBench b(state.range(0));
  const bool backward = state.range(1) != 0;
  constexpr int64_t kRows = 640;
  float* memory = b.buffers.Floats(3 * kRows * b.kWidth);
  const auto block = [&](int64_t first) -> absl::Status {
    const int64_t n = std::min(kRows, kTokens - first);
    const Matrix before(memory, n, b.kWidth);
    const Matrix after(memory + kRows * b.kWidth, n, b.kWidth);
    const Matrix grad(memory + 2 * kRows * b.kWidth, n, b.kWidth);
    const auto part = [&](const Matrix& m) {
      return Matrix(m.data + first * m.stride, n, m.cols, m.stride);
    };
    const auto gemm = [&](bool ta, bool tb, ConstMatrix x, ConstMatrix y,
                          float beta, Matrix z) {
      return b.backend->Gemm(ta, tb, 1, x, y, beta, z);
    };
    absl::Status status = gemm(false, false, part(b.t1), b.b1, 0, before);
    status.Update(b.backend->Activate(Activation::kGelu, before, after));
    if (!backward) {
      status.Update(gemm(false, false, after, b.a2, 0, part(b.t2)));
      return status;
    }
    const Matrix b1(b.b1.data, b.rank, b.kWidth);
    status.Update(gemm(true, false, after, part(b.t2), 1, b.grad_a2));
    status.Update(gemm(false, true, part(b.t2), b.a2, 0, grad));
    status.Update(
        b.backend->ActivateBackward(Activation::kGelu, before, grad, grad));
    status.Update(gemm(true, false, part(b.t1), grad, 1, b.grad_b1));
    status.Update(gemm(false, true, grad, b1, 0, part(b.grad_t1)));
    return status;
  };
  b.Repeat(state, [&] {
    absl::Status status;
    for (int64_t first = 0; first < kTokens; first += kRows) {
      status.Update(block(first));
    }
    return status;
  });
  Flops(state, b.Products(backward));
}
BENCHMARK(BM_HiddenFfn)
    ->ArgNames({"rank", "backward"})
    ->ArgsProduct({{15, 30, 128, 256, 512}, {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace comera::kernels
