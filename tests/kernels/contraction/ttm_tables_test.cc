#include "kernels/contraction/ttm_tables.h"

#include <memory>
#include <numeric>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/lookup.h"
#include "tests/kernels/contraction/chain_fixture.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;

class TtmTableChainTest : public ::testing::TestWithParam<TtmShape> {
 protected:
  const std::unique_ptr<Backend> backend_ = CreateCpuBackend({});
};

// Looks every row up and compares with the explicit table; then the gradients
// of sum of c_ij W_ij.
TEST_P(TtmTableChainTest, RowsAndGradients) {
  const TtmShape shape = GetParam();
  ASSERT_OK_AND_ASSIGN(const TtmTableChain chain, TtmTableChain::Create(shape));
  const TestCores cores(shape);
  TestMemory kept(chain.kept_size()), workspace(chain.workspace_size());
  ASSERT_OK(chain.Forward(backend_.get(), cores.cores(), kept.data(),
                          workspace.data()));
  kept.CheckMargin();
  workspace.CheckMargin();
  const float* prefix = chain.Prefix(cores.cores(), kept.data());
  const float* suffix = chain.Suffix(cores.cores(), kept.data());

  const DoubleMatrix dense = reference::DenseMatrix(shape, cores.exact());
  std::vector<int32_t> rows(dense.rows);
  std::iota(rows.begin(), rows.end(), 0);
  const ConstIndices indices(rows.data(), rows.size());
  std::vector<float> out(dense.size());
  ASSERT_OK(backend_->TtmLookup(chain.tables(), prefix, suffix, indices,
                                Matrix(out.data(), dense.rows, dense.cols)));
  double largest = 1e-3;
  for (double value : dense.values) {
    largest = std::max(largest, std::fabs(value));
  }
  for (int64_t i = 0; i < dense.size(); ++i) {
    ASSERT_NEAR(out[i], dense[i], 3e-6 * largest) << "entry " << i;
  }

  std::vector<float> c(dense.size());
  for (int64_t i = 0; i < dense.size(); ++i) {
    c[i] = static_cast<float>((i * 37) % 19) / 16 - 0.5f;
  }
  std::vector<float> grad_prefix(chain.prefix_size());
  std::vector<float> grad_suffix(chain.suffix_size());
  ASSERT_OK(
      backend_->TtmLookupBackward(chain.tables(), prefix, suffix, indices,
                                  ConstMatrix(c.data(), dense.rows, dense.cols),
                                  grad_prefix.data(), grad_suffix.data()));
  ASSERT_OK(chain.Backward(backend_.get(), cores.cores(), kept.data(),
                           grad_prefix.data(), grad_suffix.data(),
                           cores.grads(), workspace.data()));
  workspace.CheckMargin();
  cores.CheckGradients([&](const std::vector<DoubleMatrix>& changed) {
    const DoubleMatrix w = reference::DenseMatrix(shape, changed);
    double loss = 0;
    for (int64_t i = 0; i < w.size(); ++i) loss += c[i] * w[i];
    return loss;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtmTableChainTest,
    ::testing::Values(
        TtmShape{{1, 1}, {1, 1}, {1}}, TtmShape{{3, 4}, {2, 5}, {3}},
        TtmShape{{3, 2, 4}, {2, 3, 2}, {3, 4}},
        TtmShape{{2, 3, 2, 3}, {3, 2, 2, 2}, {2, 4, 3}},
        TtmShape{{2, 3, 2, 2, 3}, {1, 2, 3, 2, 2}, {2, 4, 3, 2}},
        TtmShape{{2, 2, 2, 2, 2, 3}, {2, 1, 2, 2, 1, 2}, {2, 3, 4, 3, 2}},
        TtmShape{{3, 2, 4}, {2, 3, 2}, {0, 4}},
        TtmShape{{2, 3, 2, 3}, {3, 2, 2, 2}, {0, 0, 0}}));

TEST(TtmTableShapeTest, RefusesImpossibleShapes) {
  const int64_t huge = int64_t{1} << 39;
  for (const TtmShape& shape :
       {TtmShape{{3}, {3}, {}}, TtmShape{{3, 2}, {3}, {1}},
        TtmShape{{3, 2}, {3, 0}, {1}}, TtmShape{{3, 2}, {3, 2}, {}},
        TtmShape{{3, 2}, {3, 2}, {-1}}, TtmShape{{huge, 2}, {huge, 2}, {1}},
        TtmShape{{1 << 20, 1 << 10}, {1 << 10, 1}, {1 << 20}}}) {
    EXPECT_THAT(TtmTableChain::Create(shape),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace comera::kernels
