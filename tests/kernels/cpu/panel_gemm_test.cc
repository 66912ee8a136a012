// The panel product agrees with a plain one for any shape and stride.
#include "kernels/cpu/products/panel_gemm.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

// Small whole numbers, whose sums are exact in any order.
std::vector<float> Random(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(size);
  for (float& v : values) v = static_cast<float>(random() % 9) - 4;
  return values;
}

// Rows next to each other, columns next to each other (transposed), neither.
enum class Order { kRows, kColumns, kNeither };

void Check(int64_t m, int64_t n, int64_t k, Order order, bool accumulate) {
  PanelShape s = {m, n, k, k + 2, 1, n + 5, n + 7};
  if (order == Order::kColumns) s.a_row = 1, s.a_col = m + 3;
  if (order == Order::kNeither) s.a_row = 2 * k + 3, s.a_col = 2;
  const std::vector<float> a = Random(m * s.a_row + k * s.a_col + 1, 1);
  const std::vector<float> b = Random(k * s.b_row + 1, 2);
  const std::vector<float> before = Random(m * s.c_row + 1, 3);
  std::vector<float> expected = before, c = before;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = accumulate ? before[i * s.c_row + j] : 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += a[i * s.a_row + p * s.a_col] * b[p * s.b_row + j];
      }
      expected[i * s.c_row + j] = sum;
    }
  }
  PanelGemm(s, a.data(), b.data(), accumulate, c.data());
  EXPECT_EQ(c, expected) << m << "x" << n << "x" << k << " order "
                         << static_cast<int>(order);
}

TEST(PanelGemmTest, AnyShapeAndStride) {
  for (int64_t m : {0, 1, 2, 5, 8, 13, 17}) {
    for (int64_t n : {0, 1, 4, 9, 16, 31, 32, 45, 64}) {
      for (int64_t k : {0, 1, 5, 16}) {
        for (Order order : {Order::kRows, Order::kColumns, Order::kNeither}) {
          Check(m, n, k, order, false);
          Check(m, n, k, order, true);
        }
      }
    }
  }
}

TEST(PanelGemmTest, TransposesAndPadsWithZeros) {
  for (int64_t rows : {0, 1, 3, 4, 9, 16}) {
    for (int64_t cols : {0, 1, 4, 7, 12}) {
      const int64_t in_row = cols + 3, out_row = rows + 2, pad_row = cols + 4;
      const std::vector<float> in = Random(rows * in_row + 1, 1);
      std::vector<float> turned(cols * out_row, 99), padded(rows * pad_row, 99);
      TransposePanel(2, in.data(), in_row, rows, cols, turned.data(), out_row);
      PadPanel(3, in.data(), in_row, rows, cols, padded.data(), pad_row);
      for (int64_t j = 0; j < cols; ++j) {
        for (int64_t i = 0; i < out_row; ++i) {
          EXPECT_EQ(turned[j * out_row + i],
                    i < rows ? 2 * in[i * in_row + j] : 0);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < pad_row; ++j) {
          EXPECT_EQ(padded[i * pad_row + j],
                    j < cols ? 3 * in[i * in_row + j] : 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace comera::kernels
