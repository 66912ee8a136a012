// Products a b^T of the sizes that oneDNN's block kernels take, and around.
#include <cmath>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/cpu/random_values.h"

namespace comera::kernels {
namespace {

// Floats between the rows of the operands.
struct Gaps {
  int64_t a = 0, b = 0, c = 0;
};

struct Product {
  int64_t m, n, k;
  float beta = 0;
  Gaps gaps = {};
};

class TransposedGemmTest : public ::testing::TestWithParam<Product> {
 protected:
  // The second call finds everything that the first one made.
  std::vector<float> Multiply(int threads) const {
    const auto backend = CreateCpuBackend({threads});
    std::vector<float> c;
    for (int call = 0; call < 2; ++call) {
      c = c_;
      EXPECT_OK(backend->Gemm(
          false, true, 1, ConstMatrix(a_.data(), p_.m, p_.k, a_stride()),
          ConstMatrix(b_.data(), p_.n, p_.k, b_stride()), p_.beta,
          Matrix(c.data(), p_.m, p_.n, c_stride())));
    }
    return c;
  }
  int64_t a_stride() const { return p_.k + p_.gaps.a; }
  int64_t b_stride() const { return p_.k + p_.gaps.b; }
  int64_t c_stride() const { return p_.n + p_.gaps.c; }

  const Product p_ = GetParam();
  const std::vector<float> a_ = RandomValues(p_.m * a_stride(), 1);
  const std::vector<float> b_ = RandomValues(p_.n * b_stride(), 2);
  const std::vector<float> c_ = RandomValues(p_.m * c_stride(), 3);
};

TEST_P(TransposedGemmTest, IsTheProduct) {
  const std::vector<float> c = Multiply(2);
  for (int64_t i = 0; i < p_.m; ++i) {
    for (int64_t j = 0; j < c_stride(); ++j) {
      const int64_t at = i * c_stride() + j;
      if (j >= p_.n) {
        ASSERT_EQ(c[at], c_[at]) << "between rows";
        continue;
      }
      double sum = p_.beta * c_[at], scale = 1;
      for (int64_t x = 0; x < p_.k; ++x) {
        const double term = static_cast<double>(a_[i * a_stride() + x]) *
                            b_[j * b_stride() + x];
        sum += term;
        scale += std::fabs(term);
      }
      ASSERT_NEAR(c[at], sum, 1e-6 * scale) << i << " " << j;
    }
  }
}

TEST_P(TransposedGemmTest, ThreadsGiveTheSame) {
  EXPECT_EQ(Multiply(1), Multiply(2));
}

INSTANTIATE_TEST_SUITE_P(
    Products, TransposedGemmTest,
    ::testing::Values(Product{128, 128, 1024}, Product{77, 333, 512},
                      Product{1000, 32, 257}, Product{128, 128, 300, 1},
                      Product{90, 200, 256, -0.5f},
                      Product{100, 160, 300, 0, {0, 0, 7}},
                      Product{100, 160, 300, 1, {0, 0, 7}},
                      Product{100, 160, 300, 0, {8, 0, 0}},
                      Product{100, 160, 300, 0, {0, 5, 0}},
                      // Not of the sizes that pay.
                      Product{1100, 40, 300}, Product{64, 48, 256},
                      Product{300, 300, 100}));

}  // namespace
}  // namespace comera::kernels
