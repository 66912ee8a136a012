// What only the processor's backend promises; kernels/backend.h itself is
// tested by tests/conformance/backend.
#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

using ::testing::HasSubstr;

std::vector<float> Random(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = random() * 0x1p-31f - 1;
  return values;
}

TEST(CpuBackendTest, RefusesIndicesOutsideTheTable) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> data(64);
  const Matrix table(data.data(), 4, 4), out(data.data() + 32, 2, 4);
  float totals[3] = {};
  for (int32_t bad : {-1, 4}) {
    const int32_t rows[] = {1, bad};
    const ConstIndices indices(rows, 2);
    const auto refused =
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at 1"));
    EXPECT_THAT(backend->GatherRows(table, indices, out), refused);
    EXPECT_THAT(backend->ScatterAddRows(out, indices, table), refused);
    EXPECT_THAT(backend->PutRows(out, indices, table), refused);
    // The label -1 is none.
    const int32_t labels[] = {1, bad < 0 ? bad - 1 : bad};
    EXPECT_THAT(
        backend->SoftmaxCrossEntropy(out, ConstIndices(labels, 2), {}, totals),
        refused);
  }
}

// Members of a gang have other numbers of threads and need the same bits.
TEST(CpuBackendTest, OrthogonalStepsDoNotDependOnTheNumberOfThreads) {
  // Shared among the threads row by row, and one to a thread.
  const std::vector<OrthogonalSegment> segments = {
      {0, 401, 206, 0.1f, 0.01f, true}, {82606, 30, 77, 0.1f, 0.01f, true}};
  const int64_t size = 82606 + 30 * 77;
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    const std::unique_ptr<Backend> backend = CreateCpuBackend({threads});
    std::vector<float> parameters = Random(size, 1), momentum(size);
    const std::vector<float> gradients = Random(size, 2);
    ASSERT_OK_AND_ASSIGN(
        void* const workspace,
        backend->Allocate(backend->OrthogonalStepWorkspaceBytes(segments)));
    ASSERT_OK(backend->OrthogonalStep({}, segments, {parameters.data(), size},
                                      {gradients.data(), size},
                                      {momentum.data(), size}, workspace));
    backend->Free(workspace);
    results.push_back(parameters);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(CpuBackendTest, RefusesOffsetsThatDoNotCutTheRows) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> data(64);
  const Matrix table(data.data(), 4, 4), out(data.data() + 32, 2, 4);
  const int32_t rows[] = {1, 3, 0};
  const ConstIndices indices(rows, 3);
  using Offsets = std::vector<int32_t>;
  for (const Offsets& bad :
       {Offsets{0, 3}, Offsets{0, 1, 2}, Offsets{1, 2, 3}, Offsets{0, 4, 3},
        Offsets{0, -1, 3}, Offsets{0, 1, 2, 3}}) {
    const ConstIndices offsets(bad.data(), bad.size());
    EXPECT_THAT(
        backend->SumRows(table, indices, offsets, out),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset")));
  }
}

TEST(CpuBackendTest, RefusesOffsetsThatDoNotFit) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> data(64);
  const Matrix m(data.data(), 4, 5);
  const AttentionShape shape = {2, 4, 3, 1, 5};
  const std::vector<std::vector<int32_t>> bad = {
      {1, 2, 4}, {0, 3, 2}, {0, 4, 4}, {0, 2, 3}, {0, -1, 4}, {0, 2, 5}};
  for (const std::vector<int32_t>& offsets : bad) {
    EXPECT_THAT(
        backend->Attention(shape, {}, ConstIndices(offsets.data(), 3), m, m, m,
                           data.data(), m, data.data()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset")));
  }
}

TEST(CpuBackendTest, RefusesToPutARowTwice) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> data(64);
  const Matrix table(data.data(), 5, 4), in(data.data() + 32, 3, 4);
  const std::vector<std::vector<int32_t>> bad = {{1, 1, 2}, {4, 0, 4}};
  for (const std::vector<int32_t>& rows : bad) {
    EXPECT_THAT(
        backend->PutRows(in, ConstIndices(rows.data(), 3), table),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  }
  const int32_t falling[] = {4, 2, 0};
  EXPECT_OK(backend->PutRows(in, ConstIndices(falling, 3), table));
}

TEST(CpuBackendTest, RefusesKeysThatAreNotKept) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> data(64, 1.0f);
  const Matrix q(data.data(), 2, 2), kept(data.data() + 8, 5, 2),
      out(data.data() + 32, 2, 2);
  const CachedAttentionShape shape = {1, 1, 2, 1, 2, 1};
  struct Seen {
    int32_t first, count;
    const char* what;  // is said of it, null: nothing
  };
  constexpr int32_t kFar = std::numeric_limits<int32_t>::max();
  for (const Seen& seen :
       {Seen{2, 3, nullptr}, Seen{4, 1, nullptr}, Seen{-1, 1, "first -1 at 1"},
        Seen{3, 3, "first 3 at 1"}, Seen{5, 1, "first 5"},
        Seen{kFar, 3, "first"}, Seen{0, 0, "count 0 at 1"},
        Seen{0, -1, "count -1"}, Seen{0, 4, "[1, 3]"},
        Seen{0, kFar, "count"}}) {
    const int32_t first[] = {0, seen.first}, count[] = {1, seen.count};
    const absl::Status status =
        backend->CachedAttention(shape, ConstIndices(first, 2),
                                 ConstIndices(count, 2), 3, q, kept, kept, out);
    if (seen.what == nullptr) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr(seen.what)));
    }
  }
}

// A later step of the same sequences needs no more scratch: its memory follows
// from shapes, whatever lies where.
TEST(CpuBackendTest, CachedAttentionDoesNotGrowWithItsKeys) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({2});
  constexpr int64_t kRows = 6, kKept = 3000;
  std::vector<float> data = Random(kKept * 8, 1);
  std::vector<float> out(kRows * 16);
  const CachedAttentionShape shape = {4, 2, 4, 2, 4, 0.5f};
  const ConstMatrix kept(data.data(), kKept, 8), q(data.data(), kRows, 16);
  const auto attend = [&](const std::vector<int32_t>& first,
                          const std::vector<int32_t>& count) {
    return backend->CachedAttention(shape, ConstIndices(first.data(), kRows),
                                    ConstIndices(count.data(), kRows), kKept, q,
                                    kept, kept, Matrix(out.data(), kRows, 16));
  };
  ASSERT_OK(attend({0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}));
  backend->Seal();
  ASSERT_OK(attend({0, 0, 0, 0, 0, 0}, {3000, 1, 1, 2999, 2, 3}));
  ASSERT_OK(attend({0, 1, 0, 1, 0, 1}, {2900, 2900, 2900, 1, 1, 1}));
  ASSERT_OK(attend({0, 0, 0, 1, 1, 1}, {2900, 2900, 2900, 900, 800, 7}));
  EXPECT_OK(backend->Unseal());
}

TEST(CpuBackendTest, RefusesPairsThatDoNotFit) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> data(64);
  const TtmTables t = {1, 4, 2, 2, 1, 1};
  const Matrix out(data.data(), 3, 2);
  using List = std::vector<int32_t>;
  const auto status = [&](const List& left, const List& rows,
                          const List& start) {
    const TtmPairs pairs = {{left.data(), static_cast<int64_t>(left.size())},
                            {rows.data(), static_cast<int64_t>(rows.size())},
                            {start.data(), static_cast<int64_t>(start.size())}};
    const absl::Status forward =
        backend->TtmLookup(t, data.data(), data.data(), pairs, out);
    EXPECT_EQ(forward.code(),
              backend
                  ->TtmLookupBackward(t, data.data(), data.data(), pairs, out,
                                      data.data() + 16, data.data() + 32)
                  .code());
    return forward;
  };
  EXPECT_OK(status({1, 3, 0}, {2, 0, 1}, {0, 2, 3}));
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status({1, 4, 0}, {2, 0, 1}, {0, 2, 3}), refused);
  EXPECT_THAT(status({-1, 3, 0}, {2, 0, 1}, {0, 2, 3}), refused);
  EXPECT_THAT(status({1, 3, 0}, {2, 3, 1}, {0, 2, 3}), refused);
  EXPECT_THAT(status({1, 3, 0}, {2, 0, -1}, {0, 2, 3}), refused);
  EXPECT_THAT(status({1, 3, 0}, {2, 0, 1}, {0, 3}), refused);
  EXPECT_OK(status({1, 3, 9}, {2, 0, 9}, {0, 2, 2}));
  EXPECT_THAT(status({1, 3, 0}, {2, 0, 1}, {0, 2, 4}), refused);
  EXPECT_THAT(status({3, 1, 0}, {2, 0, 1}, {0, 2, 3}), refused);
  EXPECT_THAT(status({1, 1, 0}, {2, 0, 1}, {0, 2, 3}), refused);
  EXPECT_THAT(status({1, 3}, {2, 0, 1}, {0, 2, 2}), refused);
}

TEST(CpuBackendTest, LimitsMemory) {
  CpuOptions options;
  options.memory_limit_bytes = 1000;
  const std::unique_ptr<Backend> backend = CreateCpuBackend(options);
  ASSERT_OK_AND_ASSIGN(void* most, backend->Allocate(900));
  EXPECT_THAT(backend->Allocate(200),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("200 bytes: 100 bytes are left of 1000")));
  backend->Free(most);
  ASSERT_OK_AND_ASSIGN(void* now, backend->Allocate(200));
  backend->Free(now);
}

// Sums over rows are made of blocks that do not depend on the threads.
TEST(CpuBackendTest, ReductionsDoNotDependOnThreads) {
  constexpr int64_t kRows = 1111, kCols = 129;
  const std::vector<float> x = Random(kRows * kCols, 1);
  const std::vector<float> gamma = Random(kCols, 2);
  const std::vector<float> deviation(kRows, 1.5f);
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2}) {
    const std::unique_ptr<Backend> backend = CreateCpuBackend({threads});
    const ConstMatrix m(x.data(), kRows, kCols);
    std::vector<float> bias(kCols), grad_gamma(kCols), grad_beta(kCols),
        grad(kRows * kCols), rms_grad(kRows * kCols), rms_gamma(kCols);
    float sum = 0;
    ASSERT_OK(backend->BiasGradient(m, Vector(bias.data(), kCols)));
    ASSERT_OK(backend->SumOfSquares(ConstVector(x.data(), x.size()), &sum));
    ASSERT_OK(backend->ResidualLayerNormBackward(
        {}, m, m, ConstVector(deviation.data(), kRows),
        ConstVector(gamma.data(), kCols), Matrix(),
        Matrix(grad.data(), kRows, kCols), Vector(grad_gamma.data(), kCols),
        Vector(grad_beta.data(), kCols)));
    ASSERT_OK(backend->RmsNormBackward(
        m, m, ConstVector(deviation.data(), kRows),
        ConstVector(gamma.data(), kCols), Matrix(rms_grad.data(), kRows, kCols),
        Vector(rms_gamma.data(), kCols)));
    std::vector<float> all = {sum};
    for (const auto* part :
         {&bias, &grad_gamma, &grad_beta, &grad, &rms_grad, &rms_gamma}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Planned for full batches, the workspace does for any smaller one.
TEST(CpuBackendTest, AttentionWorkspaceOfSmallerBatchesIsNoLarger) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({2});
  for (int64_t samples : {1, 3, 31, 100}) {
    for (int64_t length : {1, 40, 700}) {
      const AttentionShape full = {samples, samples * length, length, 12, 64};
      const RankSpaceAttentionShape full_rank = {full, 30, 31, 7, 16};
      for (int64_t sequences = 0; sequences <= samples; ++sequences) {
        for (int64_t longest : {int64_t{1}, length / 2, length}) {
          const AttentionShape part = {sequences, sequences * longest, longest,
                                       12, 64};
          RankSpaceAttentionShape rank = full_rank;
          rank.attention = part;
          EXPECT_LE(backend->AttentionWorkspaceBytes(part),
                    backend->AttentionWorkspaceBytes(full));
          AttentionShape grouped = part, full_grouped = full;
          grouped.kv_heads = full_grouped.kv_heads = 3;
          EXPECT_LE(backend->AttentionWorkspaceBytes(grouped),
                    backend->AttentionWorkspaceBytes(full_grouped));
          EXPECT_LE(backend->RankSpaceAttentionWorkspaceBytes(rank),
                    backend->RankSpaceAttentionWorkspaceBytes(full_rank))
              << sequences << " of " << longest;
        }
      }
    }
  }
}

// Heads of a group go to different threads and add to the same gradients.
TEST(CpuBackendTest, GroupedAttentionDoesNotDependOnThreads) {
  const std::vector<int32_t> offsets = {0, 33, 33, 34, 70};
  const AttentionShape shape = {4, 70, 36, 6, 8, 2, true};
  const std::vector<float> q = Random(70 * 48, 1), k = Random(70 * 16, 2),
                           v = Random(70 * 16, 3),
                           grad_out = Random(70 * 48, 4);
  const ConstIndices places(offsets.data(), offsets.size());
  const ConstMatrix queries(q.data(), 70, 48), grad(grad_out.data(), 70, 48);
  const ConstMatrix keys(k.data(), 70, 16), values(v.data(), 70, 16);
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 5}) {
    const std::unique_ptr<Backend> backend = CreateCpuBackend({threads});
    std::vector<float> workspace(backend->AttentionWorkspaceBytes(shape) /
                                 sizeof(float));
    std::vector<float> all(70 * (6 + 2 * 48 + 2 * 16));
    float* log_sum = all.data();
    const Matrix out(log_sum + 70 * 6, 70, 48),
        grad_q(out.data + 70 * 48, 70, 48),
        grad_k(grad_q.data + 70 * 48, 70, 16),
        grad_v(grad_k.data + 70 * 16, 70, 16);
    ASSERT_OK(backend->Attention(shape, {}, places, queries, keys, values,
                                 log_sum, out, workspace.data()));
    ASSERT_OK(backend->AttentionBackward(shape, {}, places, queries, keys,
                                         values, log_sum, out, grad, grad_q,
                                         grad_k, grad_v, workspace.data()));
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

// One sequence, so that heads are shared among the threads, and several.
TEST(CpuBackendTest, RankSpaceAttentionDoesNotDependOnThreads) {
  for (const std::vector<int32_t>& offsets :
       {std::vector<int32_t>{0, 70}, {0, 33, 33, 50, 51, 70}}) {
    const RankSpaceAttentionShape shape = {
        {static_cast<int64_t>(offsets.size()) - 1, 70, 70, 5, 16}, 9, 9, 9, 9};
    const std::vector<float> t = Random(70 * 10, 1), c = Random(50 * 10, 2);
    const std::vector<float> grad_out = Random(70 * 9, 3);
    const ConstIndices places(offsets.data(), offsets.size());
    const ConstMatrix tokens(t.data(), 70, 10), factors(c.data(), 50, 10);
    const ConstMatrix e(c.data(), 50, 9), grad(grad_out.data(), 70, 9);
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2}) {
      const std::unique_ptr<Backend> backend = CreateCpuBackend({threads});
      std::vector<float> workspace(
          backend->RankSpaceAttentionWorkspaceBytes(shape) / sizeof(float));
      std::vector<float> all(5000);
      float* log_sum = all.data();
      const Matrix out(log_sum + 350, 70, 9), q(out.data + 630, 70, 9),
          k(q.data + 630, 70, 9), v(k.data + 630, 70, 9),
          grad_c(v.data + 630, 50, 10), grad_e(grad_c.data + 500, 50, 9);
      ASSERT_OK(backend->RankSpaceAttention(shape, {}, places, tokens, tokens,
                                            tokens, factors, e, log_sum, out,
                                            workspace.data()));
      ASSERT_OK(backend->RankSpaceAttentionBackward(
          shape, {}, places, tokens, tokens, tokens, factors, e, log_sum, grad,
          q, k, v, grad_c, grad_e, workspace.data()));
      results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

// Ranks of one process have a backend each, on threads of their own.
TEST(CpuBackendTest, RankSpaceFfnAndStreamDoNotDependOnThreads) {
  constexpr int64_t kRows = 500, kWidth = 300, kRank = 5;
  const StepState state = {1, 2};
  const DropoutKey key = {0.2f, 3, 4, &state};
  std::vector<float> t = Random(kRows * (kRank + 1), 1);
  std::vector<float> b = Random((kRank + 1) * kWidth, 2);
  std::vector<float> a = Random(kWidth * kRank, 3);
  std::vector<float> x = Random(kRows * kWidth, 4);
  std::vector<float> u = Random(kRows * kRank, 5);
  std::vector<float> gamma = Random(kWidth, 6);
  const Matrix t_view(t.data(), kRows, kRank + 1);
  const Matrix b_view(b.data(), kRank + 1, kWidth);
  const Matrix a_view(a.data(), kWidth, kRank);
  const Matrix x_view(x.data(), kRows, kWidth);
  const Matrix u_view(u.data(), kRows, kRank);
  const Vector gamma_view(gamma.data(), kWidth);
  std::vector<std::vector<float>> first;
  for (int threads : {1, 2, 3, 7}) {
    const std::unique_ptr<Backend> backend = CreateCpuBackend({threads});
    std::vector<float> workspace(
        std::max(
            backend->RankSpaceFfnWorkspaceBytes({kRows, kWidth, kRank, kRank}),
            backend->RankSpaceStreamWorkspaceBytes(kRows, kRank, kWidth)) /
        sizeof(float));
    std::vector<float> t2(kRows * kRank), grad_t(t2.size()), ends(t2.size());
    std::vector<float> grad_b(b.size()), grad_a(a.size()), sums(b.size());
    std::vector<float> grad_x(x.size()), normalised(x.size()), y(x.size());
    std::vector<float> deviation(kRows), grad_gamma(kWidth), grad_beta(kWidth);
    const Matrix grad_b_view(grad_b.data(), kRank + 1, kWidth);
    const Matrix grad_a_view(grad_a.data(), kWidth, kRank);
    const Matrix normalised_view(normalised.data(), kRows, kWidth);
    const Matrix grad_x_view(grad_x.data(), kRows, kWidth);
    ASSERT_OK(backend->RankSpaceFfn(
        t_view, b_view, a_view, {t2.data(), kRows, kRank}, workspace.data()));
    ASSERT_OK(backend->RankSpaceFfnBackward(
        t_view, b_view, a_view, u_view, {grad_t.data(), kRows, kRank},
        grad_b_view, grad_a_view, workspace.data()));
    ASSERT_OK(backend->ExpandLayerNorm(
        key, t_view, b_view, x_view, gamma_view, gamma_view, 1e-5f,
        normalised_view, {deviation.data(), kRows}, {y.data(), kRows, kWidth},
        workspace.data()));
    ASSERT_OK(backend->ExpandLayerNormBackward(
        key, t_view, b_view, x_view, normalised_view, {deviation.data(), kRows},
        gamma_view, grad_x_view, {ends.data(), kRows, kRank},
        {sums.data(), kRank + 1, kWidth}, {grad_gamma.data(), kWidth},
        {grad_beta.data(), kWidth}, workspace.data()));
    ASSERT_OK(backend->ProjectBackward(normalised_view, gamma_view, gamma_view,
                                       u_view, a_view, grad_a_view, grad_x_view,
                                       workspace.data()));
    const std::vector<std::vector<float>> results = {
        t2,        grad_t, grad_b, grad_a,     y,         normalised,
        deviation, ends,   sums,   grad_gamma, grad_beta, grad_x};
    if (threads == 1) first = results;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i], first[i]) << threads << " threads, result " << i;
    }
  }
}

TEST(CpuBackendTest, BackendsInSeveralThreadsAgree) {
  constexpr int64_t kN = 120;
  const std::vector<float> x = Random(kN * kN, 3);
  std::vector<std::vector<float>> results(3, std::vector<float>(kN * kN));
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) {
    threads.emplace_back([&x, &result] {
      const std::unique_ptr<Backend> backend = CreateCpuBackend({1});
      const ConstMatrix m(x.data(), kN, kN);
      for (int i = 0; i < 20; ++i) {
        ASSERT_OK(backend->Gemm(false, true, 1, m, m, 0,
                                Matrix(result.data(), kN, kN)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(CpuBackendTest, NanReachesTheLoss) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  std::vector<float> logits = Random(40, 4);
  logits[33] = std::numeric_limits<float>::quiet_NaN();
  const int32_t labels[] = {1, 2};
  float totals[3] = {};
  ASSERT_OK(backend->SoftmaxCrossEntropy(ConstMatrix(logits.data(), 2, 20),
                                         ConstIndices(labels, 2), Matrix(),
                                         totals));
  EXPECT_TRUE(std::isnan(totals[0]));
}

}  // namespace
}  // namespace comera::kernels
