// Rows of a tensor-train matrix, and gradients, equal those of the dense one.
#include "kernels/contraction/ttm_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/contraction/ttm_expansion.h"
#include "kernels/contraction/ttm_index.h"
#include "kernels/contraction/ttm_plan.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/lookup.h"
#include "tests/kernels/contraction/chain_fixture.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;
using Rows = std::vector<int32_t>;

class TtmChainTest : public ::testing::TestWithParam<TtmShape> {
 protected:
  // Looks rows up with plans for exactly as many and compares with the
  // explicit table; then the gradients of sum of c_ij W_ij over the rows.
  void Check(const Rows& rows) {
    const TtmShape shape = GetParam();
    const TestCores cores(shape);
    const DoubleMatrix dense = reference::DenseMatrix(shape, cores.exact());
    const int64_t count = static_cast<int64_t>(rows.size());
    std::vector<float> c(count * dense.cols);
    for (size_t i = 0; i < c.size(); ++i) {
      c[i] = static_cast<float>((i * 37) % 19) / 16 - 0.5f;
    }
    const auto differences =
        cores.Differences([&](const std::vector<DoubleMatrix>& changed) {
          const DoubleMatrix w = reference::DenseMatrix(shape, changed);
          double loss = 0;
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t j = 0; j < w.cols; ++j) {
              loss += c[i * w.cols + j] * w.at(rows[i], j);
            }
          }
          return loss;
        });
    for (int split = 1; split < shape.order(); ++split) {
      SCOPED_TRACE(::testing::Message() << count << " rows, split " << split);
      ASSERT_OK_AND_ASSIGN(const TtmPlan plan,
                           TtmPlan::Create(shape, count, split));
      const TtmChain chain(plan);
      TtmIndex index(plan);
      ASSERT_OK(index.Set(rows));
      EXPECT_EQ(index.rows(), count);
      TestMemory kept(chain.kept_size()), workspace(chain.workspace_size());
      std::vector<float> out(c.size(), std::nanf(""));
      ASSERT_OK(chain.Forward(backend_.get(), cores.cores(), index,
                              index.lists().data(), kept.data(),
                              Matrix(out.data(), count, dense.cols)));
      kept.CheckMargin();
      CompareRows(rows, dense, out);
      ASSERT_OK(chain.Backward(backend_.get(), cores.cores(), index,
                               index.lists().data(), kept.data(),
                               ConstMatrix(c.data(), count, dense.cols),
                               cores.grads(), workspace.data()));
      workspace.CheckMargin();
      cores.CompareGradients(differences);
    }
  }

  void CompareRows(const Rows& rows, const DoubleMatrix& dense,
                   const std::vector<float>& out) {
    double largest = 1e-3;
    for (double value : dense.values) {
      largest = std::max(largest, std::fabs(value));
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t j = 0; j < dense.cols; ++j) {
        const float got = out[i * dense.cols + j];
        ASSERT_TRUE(std::fabs(got - dense.at(rows[i], j)) <= 3e-6 * largest)
            << "row " << rows[i] << " column " << j << ": got " << got;
      }
    }
  }

  int32_t TableRows() const {
    int64_t rows = 1;
    for (int64_t mode : GetParam().row_modes) rows *= mode;
    return static_cast<int32_t>(rows);
  }

  const std::unique_ptr<Backend> backend_ = CreateCpuBackend({});
};

TEST_P(TtmChainTest, TheWholeTableAtOnce) {
  const TtmShape shape = GetParam();
  const TestCores cores(shape);
  const DoubleMatrix dense = reference::DenseMatrix(shape, cores.exact());
  std::vector<float> c(dense.values.size());
  for (size_t i = 0; i < c.size(); ++i) {
    c[i] = static_cast<float>((i * 37) % 19) / 16 - 0.5f;
  }
  const auto differences =
      cores.Differences([&](const std::vector<DoubleMatrix>& changed) {
        const DoubleMatrix w = reference::DenseMatrix(shape, changed);
        double loss = 0;
        for (size_t i = 0; i < c.size(); ++i) loss += c[i] * w.values[i];
        return loss;
      });
  ASSERT_OK_AND_ASSIGN(const TtmExpansion expansion,
                       TtmExpansion::Create(shape));
  ASSERT_EQ(expansion.rows(), dense.rows);
  ASSERT_EQ(expansion.cols(), dense.cols);
  TestMemory kept(expansion.kept_size()), scratch(expansion.scratch_size());
  TestMemory table(static_cast<int64_t>(c.size()));
  ASSERT_OK(expansion.Forward(backend_.get(), cores.cores(), kept.data(),
                              scratch.data(), table.data()));
  kept.CheckMargin();
  scratch.CheckMargin();
  table.CheckMargin();
  Rows rows(TableRows());
  std::iota(rows.begin(), rows.end(), 0);
  CompareRows(rows, dense, {table.data(), table.data() + c.size()});
  ASSERT_OK(expansion.Backward(backend_.get(), cores.cores(), kept.data(),
                               c.data(), cores.grads(), scratch.data()));
  scratch.CheckMargin();
  cores.CompareGradients(differences);
}

// Part by part, without the last part: what the whole table gives.
TEST_P(TtmChainTest, PartsOfTheTable) {
  const TtmShape shape = GetParam();
  const TestCores cores(shape), expected(shape);
  ASSERT_OK_AND_ASSIGN(const TtmExpansion whole, TtmExpansion::Create(shape));
  const int64_t part_rows = whole.part_rows(), cols = whole.cols();
  const int64_t parts = whole.rows() / part_rows;
  ASSERT_OK_AND_ASSIGN(const TtmExpansion two,
                       TtmExpansion::Create(shape, 2 * part_rows + 1));
  ASSERT_EQ(two.max_parts(), std::min<int64_t>(2, parts));
  TestMemory kept(whole.kept_size()), scratch(two.scratch_size());
  TestMemory whole_scratch(whole.scratch_size());
  std::vector<float> table(whole.rows() * cols), rows(table.size());
  ASSERT_OK(whole.Forward(backend_.get(), cores.cores(), kept.data(),
                          whole_scratch.data(), table.data()));
  std::vector<float> grad(table.size());
  for (int64_t i = 0; i < (parts - 1) * part_rows * cols; ++i) {
    grad[i] = static_cast<float>((i * 37) % 19) / 16 - 0.5f;
  }
  ASSERT_OK(whole.Backward(backend_.get(), cores.cores(), kept.data(),
                           grad.data(), expected.grads(),
                           whole_scratch.data()));
  ASSERT_OK(two.JoinHalves(backend_.get(), cores.cores(), kept.data(),
                           scratch.data()));
  const auto for_parts = [&](int64_t end, auto f) {
    for (int64_t first = 0; first < end; first += 2) {
      ASSERT_OK(f(first, std::min<int64_t>(2, end - first),
                  first * part_rows * cols));
    }
  };
  for_parts(parts, [&](int64_t first, int64_t count, int64_t at) {
    return two.ExpandParts(backend_.get(), cores.cores(), kept.data(), first,
                           count, scratch.data(), rows.data() + at);
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_NEAR(rows[i], table[i], 1e-5) << i;
  }
  for_parts(parts - 1, [&](int64_t first, int64_t count, int64_t at) {
    return two.ProjectParts(backend_.get(), cores.cores(), kept.data(), first,
                            count, grad.data() + at, cores.grads(),
                            scratch.data());
  });
  if (parts > 1) {
    ASSERT_OK(two.SplitHalves(backend_.get(), cores.cores(), kept.data(),
                              parts - 1, cores.grads(), scratch.data()));
    for (int core = 0; core < shape.order(); ++core) {
      for (int64_t i = 0; i < shape.CoreSize(core); ++i) {
        ASSERT_NEAR(cores.grads()[core][i], expected.grads()[core][i], 1e-5)
            << "core " << core << " element " << i;
      }
    }
  }
  scratch.CheckMargin();
  EXPECT_EQ(two.ExpandParts(backend_.get(), cores.cores(), kept.data(), 0, 3,
                            scratch.data(), rows.data())
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(TtmChainTest, EveryRow) {
  Rows rows(TableRows());
  std::iota(rows.begin(), rows.end(), 0);
  Check(rows);
}

TEST_P(TtmChainTest, SomeRows) {
  Rows rows;
  for (int32_t row = 0; row < TableRows(); ++row) {
    if (row * 7 % 5 < 2) rows.push_back(row);
  }
  Check(rows);
}

TEST_P(TtmChainTest, TheLastRow) { Check({TableRows() - 1}); }
TEST_P(TtmChainTest, NoRow) { Check({}); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtmChainTest,
    ::testing::Values(
        TtmShape{{1, 1}, {1, 1}, {1}}, TtmShape{{3, 4}, {2, 5}, {3}},
        TtmShape{{3, 2, 4}, {2, 3, 2}, {3, 4}},
        TtmShape{{2, 3, 2, 3}, {3, 2, 2, 2}, {2, 4, 3}},
        TtmShape{{2, 3, 2, 2, 2}, {1, 2, 3, 1, 2}, {2, 4, 3, 2}},
        TtmShape{{2, 2, 1, 2, 2, 3}, {2, 1, 2, 1, 2, 1}, {2, 3, 4, 3, 2}},
        TtmShape{{3, 2, 4}, {2, 3, 2}, {0, 4}},
        TtmShape{{2, 3, 2, 3}, {3, 2, 2, 2}, {0, 0, 0}}));

// One index serves batches of any size, and a smaller batch leaves nothing of
// a larger one behind.
TEST(TtmIndexTest, ServesBatchAfterBatch) {
  const TtmShape shape = {{3, 4, 5}, {2, 1, 2}, {3, 2}};
  ASSERT_OK_AND_ASSIGN(const TtmPlan plan, TtmPlan::Create(shape, 30, 1));
  TtmIndex index(plan);
  Rows many(30);
  std::iota(many.begin(), many.end(), 11);
  ASSERT_OK(index.Set(many));
  EXPECT_EQ(index.Tables(1).right_rows, 20);
  ASSERT_OK(index.Set(Rows{7, 27, 28}));
  EXPECT_EQ(index.rows(), 3);
  // Suffixes 7 (twice) and 8, of digits (1, 2) and (1, 3).
  EXPECT_EQ(index.Tables(1).right_rows, 2);
  const TtmPairs rows = index.Pairs(1, index.lists().data());
  EXPECT_EQ(Rows(rows.left.data, rows.left.data + 3), (Rows{0, 1, 1}));
  EXPECT_EQ(Rows(rows.out.data, rows.out.data + 3), (Rows{0, 1, 2}));
  EXPECT_EQ(Rows(rows.start.data, rows.start.data + 3), (Rows{0, 2, 3}));
  const TtmPairs suffixes = index.Pairs(0, index.lists().data());
  EXPECT_EQ(Rows(suffixes.left.data, suffixes.left.data + 2), (Rows{1, 1}));
  EXPECT_EQ(suffixes.start.size, 6);
  EXPECT_EQ(Rows(suffixes.start.data, suffixes.start.data + 6),
            (Rows{0, 0, 0, 1, 2, 2}));
}

TEST(TtmIndexTest, RefusesRowsAndKeepsThoseBefore) {
  const TtmShape shape = {{3, 4}, {2, 1}, {3}};
  ASSERT_OK_AND_ASSIGN(const TtmPlan plan, TtmPlan::Create(shape, 3));
  TtmIndex index(plan);
  ASSERT_OK(index.Set(Rows{1, 11}));
  for (const Rows& bad :
       {Rows{12}, Rows{-1}, Rows{3, 3}, Rows{4, 3}, Rows{0, 1, 2, 3}}) {
    EXPECT_THAT(index.Set(bad), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(index.rows(), 2);
}

}  // namespace
}  // namespace comera::kernels
