// Prefix times suffix is the dense matrix, with its derivatives.
#include "kernels/contraction/tt_chain.h"

#include <memory>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/lookup.h"
#include "tests/kernels/contraction/chain_fixture.h"

namespace comera::kernels {
namespace {

using reference::DoubleMatrix;

// The memory of a chain's products.
struct Factors {
  explicit Factors(const TtChain& chain)
      : shape(chain.shape()),
        inner(chain.inner_size()),
        prefix(chain.prefix_size()),
        suffix(chain.suffix_size()) {}

  ConstMatrix A() { return {prefix.data(), shape.Rows(), shape.MiddleRank()}; }
  ConstMatrix B() { return {suffix.data(), shape.MiddleRank(), shape.Cols()}; }
  void CheckMargins() const {
    for (const TestMemory* memory : {&inner, &prefix, &suffix}) {
      memory->CheckMargin();
    }
  }

  const TtShape shape;
  TestMemory inner, prefix, suffix;
};

class TtChainTest : public ::testing::TestWithParam<TtShape> {
 protected:
  const std::unique_ptr<Backend> backend_ = CreateCpuBackend({});
};

// A B must be the matrix that the cores stand for, entry by entry.
TEST_P(TtChainTest, ProductIsTheDenseMatrix) {
  const TtShape shape = GetParam();
  ASSERT_OK_AND_ASSIGN(const TtChain chain, TtChain::Create(shape));
  const TestCores cores(shape);
  Factors factors(chain);
  ASSERT_OK(chain.Forward(backend_.get(), cores.cores(), factors.inner.data(),
                          factors.prefix.data(), factors.suffix.data()));
  factors.CheckMargins();
  const ConstMatrix a = factors.A(), b = factors.B();
  const DoubleMatrix dense = reference::DenseMatrix(shape, cores.exact());
  ASSERT_EQ(a.rows, dense.rows);
  ASSERT_EQ(b.cols, dense.cols);
  ASSERT_EQ(a.cols, b.rows);
  double largest = 1e-3;
  for (double value : dense.values) {
    largest = std::max(largest, std::fabs(value));
  }
  for (int64_t i = 0; i < dense.rows; ++i) {
    for (int64_t j = 0; j < dense.cols; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < a.cols; ++p) {
        sum += static_cast<double>(a.data[i * a.stride + p]) *
               b.data[p * b.stride + j];
      }
      ASSERT_NEAR(sum, dense.at(i, j), 3e-6 * largest) << i << ", " << j;
    }
  }
}

// Loss: sum of c_ij W_ij, so the gradient of A is c B^T and of B is A^T c.
TEST_P(TtChainTest, GradientsAreFiniteDifferences) {
  const TtShape shape = GetParam();
  ASSERT_OK_AND_ASSIGN(const TtChain chain, TtChain::Create(shape));
  const TestCores cores(shape);
  Factors factors(chain);
  TestMemory workspace(chain.workspace_size());
  ASSERT_OK(chain.Forward(backend_.get(), cores.cores(), factors.inner.data(),
                          factors.prefix.data(), factors.suffix.data()));
  const ConstMatrix a = factors.A(), b = factors.B();

  const int64_t rows = shape.Rows(), cols = shape.Cols(), rank = a.cols;
  std::vector<float> c(rows * cols);
  for (int64_t i = 0; i < rows * cols; ++i) {
    c[i] = static_cast<float>((i * 37) % 19) / 16 - 0.5f;
  }
  const ConstMatrix weights(c.data(), rows, cols);
  std::vector<float> grad_a(rows * rank), grad_b(rank * cols);
  const Matrix to_a(grad_a.data(), rows, rank), to_b(grad_b.data(), rank, cols);
  ASSERT_OK(backend_->Gemm(false, true, 1, weights, b, 0, to_a));
  ASSERT_OK(backend_->Gemm(true, false, 1, a, weights, 0, to_b));
  // In memory that something else has used since.
  TestMemory inner(chain.inner_size());
  ASSERT_OK(chain.Rebuild(backend_.get(), cores.cores(), inner.data()));
  inner.CheckMargin();
  ASSERT_OK(chain.PrefixBackward(backend_.get(), cores.cores(), inner.data(),
                                 to_a, cores.grads(), workspace.data()));
  ASSERT_OK(chain.SuffixBackward(backend_.get(), cores.cores(), inner.data(),
                                 to_b, cores.grads(), workspace.data()));
  workspace.CheckMargin();
  cores.CheckGradients([&](const std::vector<DoubleMatrix>& changed) {
    const DoubleMatrix w = reference::DenseMatrix(shape, changed);
    double loss = 0;
    for (int64_t i = 0; i < w.size(); ++i) loss += c[i] * w[i];
    return loss;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtChainTest,
    ::testing::Values(
        TtShape{{1}, {1}, {1}}, TtShape{{5}, {3}, {2}},
        TtShape{{2, 3}, {4}, {3, 2}}, TtShape{{5}, {2, 3, 2}, {4, 3, 2}},
        TtShape{{3, 2}, {2, 4}, {3, 5, 2}},
        TtShape{{4, 3, 2}, {2, 3, 3}, {3, 5, 4, 5, 2}},
        TtShape{{2, 3, 2, 2}, {2, 2, 3, 2}, {2, 3, 4, 3, 4, 3, 2}},
        TtShape{{2, 2, 1, 3, 2}, {2, 1, 2, 2, 2}, {2, 3, 3, 2, 4, 3, 1, 2, 2}},
        TtShape{{3, 2}, {2, 4}, {0, 5, 2}},
        TtShape{{3, 2, 2}, {2, 4, 2}, {2, 3, 0, 5, 2}},
        TtShape{{3, 2, 2}, {2, 4, 2}, {0, 0, 0, 0, 0}}));

TEST(TtChainShapeTest, RefusesImpossibleShapes) {
  const int64_t huge = int64_t{1} << 39;
  for (const TtShape& shape :
       {TtShape{{}, {3}, {}}, TtShape{{3}, {}, {}}, TtShape{{3}, {3}, {}},
        TtShape{{3}, {3}, {1, 1}}, TtShape{{0}, {3}, {1}},
        TtShape{{3, -2}, {3}, {1, 1}}, TtShape{{3}, {3}, {-1}},
        TtShape{{huge, huge}, {3}, {1, 1}}, TtShape{{3}, {3}, {huge}},
        TtShape{{huge}, {3}, {1 << 20}}}) {
    EXPECT_THAT(TtChain::Create(shape),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(TtChainShapeTest, RefusesOtherOperands) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend({});
  const TtShape shape = {{5}, {3}, {2}};
  ASSERT_OK_AND_ASSIGN(const TtChain chain, TtChain::Create(shape));
  const TestCores cores(shape);
  std::vector<const float*> few = {cores.cores()[0]};
  EXPECT_THAT(chain.Forward(backend.get(), few, nullptr, nullptr, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::vector<float> grad(15);
  EXPECT_THAT(chain.PrefixBackward(backend.get(), cores.cores(), nullptr,
                                   ConstMatrix(grad.data(), 5, 2, 3),
                                   cores.grads(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::kernels
