// Products with operands rounded to bfloat16. What a processor without them
// does is tested everywhere else: it multiplies float32.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/cpu/random_values.h"

namespace comera::kernels {
namespace {

// Rounds to nearest, ties to even, one number at a time.
double Rounded(float x) {
  int exponent;
  const double fraction = std::frexp(x, &exponent);  // 8 bits are kept
  return std::ldexp(std::nearbyint(fraction * 256), exponent - 8);
}

struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  float beta;
  int64_t gap = 0;  // between rows, of all three
};

struct Operands {
  explicit Operands(const Product& p)
      : a(RandomValues(a_rows(p) * (a_cols(p) + p.gap), 1)),
        b(RandomValues(b_rows(p) * (b_cols(p) + p.gap), 2)),
        c(RandomValues(p.m * (p.n + p.gap), 3)) {}
  static int64_t a_rows(const Product& p) { return p.transpose_a ? p.k : p.m; }
  static int64_t a_cols(const Product& p) { return p.transpose_a ? p.m : p.k; }
  static int64_t b_rows(const Product& p) { return p.transpose_b ? p.n : p.k; }
  static int64_t b_cols(const Product& p) { return p.transpose_b ? p.k : p.n; }
  std::vector<float> a, b, c;
};

std::vector<float> Multiply(const Product& p, Operands o,
                            const CpuOptions& options, float alpha = 1) {
  const auto backend = CreateCpuBackend(options);
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<float> c = o.c;
    EXPECT_OK(backend->Gemm(
        p.transpose_a, p.transpose_b, alpha,
        ConstMatrix(o.a.data(), o.a_rows(p), o.a_cols(p), o.a_cols(p) + p.gap),
        ConstMatrix(o.b.data(), o.b_rows(p), o.b_cols(p), o.b_cols(p) + p.gap),
        p.beta, Matrix(c.data(), p.m, p.n, p.n + p.gap)));
    // The second time everything is there already.
    if (repeat == 1) o.c = c;
  }
  return o.c;
}

class Bf16GemmTest : public ::testing::TestWithParam<Product> {
 protected:
  void SetUp() override {
    if (!CpuHasBf16()) GTEST_SKIP() << "this processor has no avx512_bf16";
  }
};

TEST_P(Bf16GemmTest, IsTheProductOfRoundedOperands) {
  const Product& p = GetParam();
  const Operands o(p);
  const std::vector<float> c = Multiply(p, o, {1, 0, /*bf16=*/true});
  double lost = 0, norm = 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n + p.gap; ++j) {
      const int64_t at = i * (p.n + p.gap) + j;
      if (j >= p.n) {
        ASSERT_EQ(c[at], o.c[at]) << "between rows";
        continue;
      }
      double exact = p.beta * o.c[at], rounded = exact, scale = 1;
      for (int64_t x = 0; x < p.k; ++x) {
        const float a =
            o.a[p.transpose_a ? x * (p.m + p.gap) + i : i * (p.k + p.gap) + x];
        const float b =
            o.b[p.transpose_b ? j * (p.k + p.gap) + x : x * (p.n + p.gap) + j];
        exact += static_cast<double>(a) * b;
        rounded += Rounded(a) * Rounded(b);
        scale += std::fabs(a * b);
      }
      ASSERT_NEAR(c[at], rounded, 1e-6 * scale) << i << " " << j;
      lost += std::pow(c[at] - exact, 2);
      norm += exact * exact;
    }
  }
  // Two roundings to 8 bits.
  EXPECT_LT(std::sqrt(lost / norm), 0x1p-8);
  EXPECT_GT(std::sqrt(lost / norm), 0x1p-12) << "nothing was rounded";
}

TEST_P(Bf16GemmTest, ThreadsGiveTheSame) {
  const Product& p = GetParam();
  const Operands o(p);
  const std::vector<float> one = Multiply(p, o, {1, 0, true});
  const std::vector<float> two = Multiply(p, o, {2, 0, true});
  for (size_t i = 0; i < one.size(); ++i) {
    ASSERT_NEAR(one[i], two[i], 1e-5 * (1 + std::sqrt(p.k)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Products, Bf16GemmTest,
    ::testing::Values(Product{false, false, 64, 64, 64, 0},
                      Product{false, true, 130, 70, 101, 1},
                      Product{true, false, 65, 129, 300, 0.5f},
                      Product{true, true, 96, 77, 64, -1},
                      Product{false, false, 128, 96, 80, 1, /*gap=*/3},
                      Product{true, false, 100, 90, 70, 0, /*gap=*/5}));

TEST(Bf16BackendTest, ThinProductsAndScaledOnesStayFloat32) {
  for (const Product& p : {Product{false, false, 256, 30, 256, 0},
                           Product{true, false, 30, 96, 512, 1},
                           Product{false, true, 256, 256, 31, 1}}) {
    EXPECT_EQ(Multiply(p, Operands(p), {1, 0, true}),
              Multiply(p, Operands(p), {1, 0}));
  }
  const Product large{false, false, 128, 128, 128, 0};
  EXPECT_EQ(Multiply(large, Operands(large), {1, 0, true}, 0.5f),
            Multiply(large, Operands(large), {1, 0}, 0.5f));
}

TEST(Bf16BackendTest, NanAndInfinityPass) {
  const Product p{false, false, 64, 64, 64, 0};
  Operands o(p);
  const uint32_t bits = 0x7fffffff;  // would round to -0
  std::memcpy(&o.a[0], &bits, sizeof(bits));
  o.a[64] = std::numeric_limits<float>::infinity();
  const std::vector<float> c = Multiply(p, o, {1, 0, true});
  EXPECT_TRUE(std::isnan(c[0]));
  EXPECT_FALSE(std::isfinite(c[64]));
  EXPECT_TRUE(std::isfinite(c[128]));
}

}  // namespace
}  // namespace comera::kernels
