// The canonical form computes the same layer, sorted by importance.
#include "worker/trainer/late/canonical_form.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/late/jacobi_svd.h"

namespace comera::trainer {
namespace {

using ::testing::Each;

using Doubles = std::vector<double>;

// A layer of order 4 among other parameters.
class CanonicalFormTest : public ::testing::Test {
 protected:
  void SetUp() override { Make({3, 4, 2, 5}, {1, 3, 6, 4, 1}); }

  void Make(std::vector<int64_t> modes, std::vector<int64_t> ranks) {
    layout_ = ParameterLayout();
    layer_ = TensorisedLayer();
    layer_.modes = modes;
    layer_.ranks = ranks;
    layout_.Add("dense", {5}, ParameterKind::kDense, false);
    for (size_t i = 0; i < modes.size(); ++i) {
      layer_.cores.push_back(layout_.Add("core" + std::to_string(i),
                                         {ranks[i], modes[i], ranks[i + 1]},
                                         ParameterKind::kCore, false));
    }
    for (size_t i = 1; i < modes.size(); ++i) {
      layer_.bonds.push_back(layout_.Add("bond" + std::to_string(i), {ranks[i]},
                                         ParameterKind::kRank, false));
    }
    parameters_.clear();
    for (int64_t i = 0; i < layout_.size(); ++i) {
      parameters_.push_back(std::sin(0.9 * i * i + 0.3));
    }
    for (int bond : layer_.bonds) {
      for (int64_t k = 0; k < layout_[bond].size; ++k) {
        parameters_[layout_[bond].offset + k] = 0.3f + 0.2f * k;
      }
    }
    first_.assign(parameters_.size(), 2.0f);
    second_.assign(parameters_.size(), 3.0f);
  }

  void Run() {
    MakeCanonical(layout_, {layer_}, parameters_.data(), first_.data(),
                  second_.data());
  }

  // All numbers of W, by contracting from the left.
  Doubles Dense(const std::vector<float>& p) const {
    Doubles left = {1};
    size_t rows = 1;
    for (size_t i = 0; i < layer_.cores.size(); ++i) {
      const float* core = p.data() + layout_[layer_.cores[i]].offset;
      const size_t a = layer_.ranks[i], n = layer_.modes[i],
                   b = layer_.ranks[i + 1];
      Doubles next(rows * n * b);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t x = 0; x < a; ++x) {
          for (size_t y = 0; y < n * b; ++y) {
            const double d = i < layer_.bonds.size()
                                 ? p[layout_[layer_.bonds[i]].offset + y % b]
                                 : 1;
            next[r * n * b + y] += left[r * a + x] * core[x * n * b + y] * d;
          }
        }
      }
      left = std::move(next);
      rows *= n;
    }
    return left;
  }

  // Sorted singular values of the unfolding after `cores` cores.
  Doubles UnfoldingSpectrum(size_t cores) const {
    size_t rows = 1, columns = 1;
    for (size_t i = 0; i < layer_.modes.size(); ++i) {
      (i < cores ? rows : columns) *= layer_.modes[i];
    }
    Doubles w = Dense(parameters_), rotation;
    Doubles sigma = JacobiSvd(rows, columns, &w, &rotation);
    std::sort(sigma.rbegin(), sigma.rend());
    return sigma;
  }

  ParameterLayout layout_;
  TensorisedLayer layer_;
  std::vector<float> parameters_, first_, second_;
};

void ExpectEqualMatrices(const Doubles& actual, const Doubles& want) {
  double scale = 0;
  for (double w : want) scale = std::max(scale, std::abs(w));
  ASSERT_EQ(actual.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(actual[i], want[i], 2e-6 * scale) << i;
  }
}

TEST_F(CanonicalFormTest, TheLayerStaysTheSame) {
  const Doubles before = Dense(parameters_);
  const std::vector<float> dense(parameters_.begin(), parameters_.begin() + 5);
  Run();
  ExpectEqualMatrices(Dense(parameters_), before);
  EXPECT_EQ(std::vector<float>(parameters_.begin(), parameters_.begin() + 5),
            dense);
  EXPECT_EQ(first_[0], 2);
  for (int bond : layer_.bonds) {
    for (int64_t k = 0; k < layout_[bond].size; ++k) {
      EXPECT_EQ(parameters_[layout_[bond].offset + k], 1);
      EXPECT_EQ(first_[layout_[bond].offset + k], 0);
    }
  }
}

TEST_F(CanonicalFormTest, LosingAnEntryCostsItsSingularValue) {
  Run();
  const Doubles before = Dense(parameters_);
  for (size_t b = 0; b < layer_.bonds.size(); ++b) {
    const Doubles spectrum = UnfoldingSpectrum(b + 1);
    const Parameter& bond = layout_[layer_.bonds[b]];
    Doubles costs;
    for (int64_t k = 0; k < bond.size; ++k) {
      std::vector<float> without = parameters_;
      without[bond.offset + k] = 0;
      const Doubles after = Dense(without);
      double square = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        square += (after[i] - before[i]) * (after[i] - before[i]);
      }
      costs.push_back(std::sqrt(square));
    }
    std::sort(costs.rbegin(), costs.rend());
    for (size_t k = 0; k < costs.size(); ++k) {
      EXPECT_NEAR(costs[k], spectrum[k], 1e-5 * spectrum[0])
          << "bond " << b << " entry " << k;
    }
  }
}

TEST_F(CanonicalFormTest, CoresKeepTheirRelativeSizes) {
  const auto rms = [&](int core) {
    const Parameter& p = layout_[core];
    double sum = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      sum += std::pow(parameters_[p.offset + i], 2);
    }
    return std::sqrt(sum / p.size);
  };
  Doubles before;
  for (int core : layer_.cores) before.push_back(rms(core));
  // G D counts, not G.
  for (size_t i = 0; i + 1 < layer_.cores.size(); ++i) {
    const Parameter& p = layout_[layer_.cores[i]];
    const Parameter& d = layout_[layer_.bonds[i]];
    double sum = 0;
    for (int64_t e = 0; e < p.size; ++e) {
      sum += std::pow(
          parameters_[p.offset + e] * parameters_[d.offset + e % d.size], 2);
    }
    before[i] = std::sqrt(sum / p.size);
  }
  Run();
  for (size_t i = 1; i < layer_.cores.size(); ++i) {
    EXPECT_NEAR(rms(layer_.cores[i]) / before[i],
                rms(layer_.cores[0]) / before[0], 1e-4);
  }
}

TEST_F(CanonicalFormTest, RanksABondCannotUseBecomeZeroSlices) {
  // The second bond can hold 2 x 2 only.
  Make({2, 2, 3, 3}, {1, 2, 7, 3, 1});
  const Doubles before = Dense(parameters_);
  Run();
  ExpectEqualMatrices(Dense(parameters_), before);
  const Parameter& bond = layout_[layer_.bonds[1]];
  std::vector<float> without = parameters_;
  int free_entries = 0;
  for (int64_t k = 0; k < bond.size; ++k) {
    without[bond.offset + k] = 0;
    const Doubles after = Dense(without);
    double change = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      change = std::max(change, std::abs(after[i] - before[i]));
    }
    if (change < 1e-5) {
      ++free_entries;
    } else {
      without[bond.offset + k] = 1;
    }
  }
  EXPECT_EQ(free_entries, 3);
  for (float p : parameters_) ASSERT_TRUE(std::isfinite(p));
}

TEST_F(CanonicalFormTest, BothSidesOfANonlinearBondStayTheSame) {
  layer_.nonlinear_bond = 1;
  // What the function between the halves sees: the first two cores and D.
  const auto input_half = [&] {
    const TensorisedLayer whole = layer_;
    layer_.cores.resize(2);
    const Doubles half = Dense(parameters_);
    layer_ = whole;
    return half;
  };
  const Doubles whole = Dense(parameters_), half = input_half();
  Run();
  ExpectEqualMatrices(input_half(), half);
  ExpectEqualMatrices(Dense(parameters_), whole);
  for (const int bond : layer_.bonds) {
    EXPECT_EQ(parameters_[layout_[bond].offset], 1);
  }
}

TEST_F(CanonicalFormTest, TwiceIsOnce) {
  Run();
  const std::vector<float> once = second_;
  const Doubles before = Dense(parameters_);
  Run();
  ExpectEqualMatrices(Dense(parameters_), before);
}

TEST_F(CanonicalFormTest, SecondMomentsFollowTheSingularValues) {
  Run();
  for (int core : layer_.cores) {
    const Parameter& p = layout_[core];
    const auto [low, high] = std::minmax_element(
        second_.begin() + p.offset, second_.begin() + p.offset + p.size);
    EXPECT_GT(*low, 0);
    EXPECT_LT(*low, *high);
    for (int64_t e = 0; e < p.size; ++e) {
      EXPECT_EQ(first_[p.offset + e], 0);
    }
  }
}

TEST_F(CanonicalFormTest, ALayerOfZerosAndALayerThatIsGone) {
  for (int core : layer_.cores) {
    std::fill_n(parameters_.begin() + layout_[core].offset, layout_[core].size,
                0.0f);
  }
  Run();
  for (float p : parameters_) ASSERT_TRUE(std::isfinite(p));
  for (float v : second_) ASSERT_TRUE(std::isfinite(v));
  layer_.ranks = {1, 0, 0, 0, 1};
  const std::vector<float> before = parameters_;
  Run();
  EXPECT_EQ(parameters_, before);
}

TEST(JacobiSvdTest, FactorsMultiplyBackAndAreOrthogonal) {
  for (const auto& [rows, columns] : std::vector<std::pair<size_t, size_t>>{
           {7, 4}, {4, 7}, {5, 5}, {1, 6}, {6, 1}, {90, 12}}) {
    Doubles a(rows * columns), rotation;
    for (size_t i = 0; i < a.size(); ++i) a[i] = std::cos(1.1 * i * i);
    const Doubles before = a;
    const Doubles sigma = JacobiSvd(rows, columns, &a, &rotation);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (size_t k = 0; k < columns; ++k) {
          sum += a[r * columns + k] * sigma[k] * rotation[c * columns + k];
        }
        EXPECT_NEAR(sum, before[r * columns + c], 1e-12);
      }
    }
    for (size_t c = 0; c < columns; ++c) {
      for (size_t d = 0; d < columns; ++d) {
        double u = 0, j = 0;
        for (size_t r = 0; r < rows; ++r) {
          u += a[r * columns + c] * a[r * columns + d];
        }
        for (size_t r = 0; r < columns; ++r) {
          j += rotation[r * columns + c] * rotation[r * columns + d];
        }
        EXPECT_NEAR(u, c == d && sigma[c] > 1e-12 ? 1 : 0, 1e-9);
        EXPECT_NEAR(j, c == d ? 1 : 0, 1e-12);
      }
    }
  }
}

TEST(JacobiSvdTest, TallWithDependentAndZeroColumns) {
  const size_t rows = 40, columns = 6;
  Doubles a(rows * columns), rotation;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      a[r * columns + c] = c == 2 ? 0 : std::sin(1.0 + r * r + (c % 3) * r);
    }
  }
  const Doubles before = a;  // columns 0, 1, 3 = 0, 4 = 1, 5
  const Doubles sigma = JacobiSvd(rows, columns, &a, &rotation);
  int positive = 0;
  for (double s : sigma) positive += s > 1e-9 ? 1 : 0;
  EXPECT_EQ(positive, 3);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (size_t k = 0; k < columns; ++k) {
        sum += a[r * columns + k] * sigma[k] * rotation[c * columns + k];
      }
      EXPECT_NEAR(sum, before[r * columns + c], 1e-12);
    }
  }
}

TEST(JacobiSvdTest, Zeros) {
  Doubles a(6, 0), rotation;
  EXPECT_THAT(JacobiSvd(3, 2, &a, &rotation), Each(0));
  EXPECT_THAT(a, Each(0));
}

}  // namespace
}  // namespace comera::trainer
