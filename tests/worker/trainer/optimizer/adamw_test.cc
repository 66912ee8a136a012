// Tests AdamW against its formula in double.
#include "worker/trainer/optimizer/adamw.h"

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace comera::trainer {
namespace {

// One parameter of each sort.
ParameterLayout Layout() {
  ParameterLayout layout;
  layout.Add("encoder.core", {1, 2, 2}, ParameterKind::kCore, false);
  layout.Add("encoder.rank", {2}, ParameterKind::kRank, false);
  layout.Add("encoder.weight", {2, 2}, ParameterKind::kDense, false);
  layout.Add("encoder.bias", {2}, ParameterKind::kDense, false);
  layout.Add("head.core", {1, 2, 1}, ParameterKind::kCore, true);
  layout.Add("head.rank", {2}, ParameterKind::kRank, true);
  layout.Add("head.weight", {1, 2}, ParameterKind::kDense, true);
  return layout;
}

AdamWOptions Options() {
  AdamWOptions options;
  options.learning_rate_cores = 0.01;
  options.learning_rate_ranks = 0.1;
  options.learning_rate_other = 0.001;
  options.weight_decay = 0.05;
  options.clip_norm = 0;
  return options;
}

class AdamWTest : public ::testing::Test {
 protected:
  AdamWTest() : backend_(kernels::CreateCpuBackend({/*threads=*/1})) {
    const auto n = static_cast<size_t>(layout_.size());
    for (size_t i = 0; i < n; ++i) {
      parameters_.push_back(1.0f + 0.1f * i);
      gradients_.push_back(std::sin(1.0f + i));
    }
    first_.resize(n);
    second_.resize(n);
  }

  // Rates of the parameters in order of the layout.
  std::vector<float> Rates(const AdamWOptions& options) {
    auto optimizer = AdamW::Create(options, layout_, backend_.get());
    EXPECT_OK(optimizer);
    std::vector<float> rates;
    for (const Parameter& p : layout_.parameters()) {
      for (const kernels::AdamWSegment& s : (*optimizer)->segments()) {
        if (p.offset >= s.offset && p.offset < s.offset + s.size) {
          rates.push_back(s.learning_rate);
        }
      }
    }
    return rates;
  }

  absl::StatusOr<double> Step(AdamW& optimizer, int64_t step, double scale) {
    const int64_t n = layout_.size();
    return optimizer.Step(step, scale, {parameters_.data(), n},
                          {gradients_.data(), n},
                          {{first_.data(), n}, {second_.data(), n}, {}});
  }

  const ParameterLayout layout_ = Layout();
  std::unique_ptr<kernels::Backend> backend_;
  std::vector<float> parameters_, gradients_, first_, second_;
};

TEST_F(AdamWTest, GroupsOfTheParetoObjective) {
  EXPECT_THAT(
      Rates(Options()),
      ::testing::ElementsAre(0.01f, 0.1f, 0.001f, 0.001f, 0.01f, 0.1f, 0.001f));
}

TEST_F(AdamWTest, GroupsOfThePublishedCode) {
  AdamWOptions options = Options();
  options.group_head = false;
  EXPECT_THAT(Rates(options),
              ::testing::ElementsAre(0.01f, 0.1f, 0.001f, 0.001f, 0.001f,
                                     0.001f, 0.001f));
}

TEST_F(AdamWTest, FollowsTheFormulaOverSteps) {
  // In double, from the definition; decay on the two weights only.
  const AdamWOptions o = Options();
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(o, layout_, backend_.get()));
  std::vector<double> p(parameters_.begin(), parameters_.end());
  std::vector<double> m(p.size()), v(p.size());
  for (int t = 1; t <= 5; ++t) {
    ASSERT_OK(Step(*optimizer, t, 0.5));
    for (const Parameter& parameter : layout_.parameters()) {
      const double rate =
          0.5 * (parameter.kind == ParameterKind::kCore   ? 0.01
                 : parameter.kind == ParameterKind::kRank ? 0.1
                                                          : 0.001);
      const bool decays = parameter.name.find("weight") != std::string::npos;
      for (int64_t k = 0; k < parameter.size; ++k) {
        const int64_t i = parameter.offset + k;
        const double g = gradients_[i];
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
        const double mhat = m[i] / (1 - std::pow(o.beta1, t));
        const double vhat = v[i] / (1 - std::pow(o.beta2, t));
        p[i] -= rate * (mhat / (std::sqrt(vhat) + o.epsilon) +
                        (decays ? o.weight_decay : 0) * p[i]);
        ASSERT_NEAR(parameters_[i], p[i], 1e-5) << parameter.name << " " << k;
      }
    }
  }
}

TEST_F(AdamWTest, RowsThatNobodyLookedUpStay) {
  ParameterLayout layout;
  layout.Add("weight", {2, 2}, ParameterKind::kDense, false);
  layout.SetTable(layout.Add("table", {4, 3}, ParameterKind::kDense, false));
  layout.SetTable(layout.Add("other", {2, 3}, ParameterKind::kDense, false));
  layout.Add("bias", {2}, ParameterKind::kDense, false);
  const AdamWOptions o = Options();
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(o, layout, backend_.get()));
  // Tables of one width are one run.
  ASSERT_EQ(optimizer->segments().size(), 3);
  EXPECT_EQ(optimizer->segments()[1].size, 18);
  EXPECT_EQ(optimizer->segments()[1].row_size, 3);
  EXPECT_EQ(optimizer->segments()[2].row_size, 0);

  const int64_t n = layout.size();
  std::vector<float> p(n, 1.0f), first(n), second(n);
  std::vector<double> want(n, 1.0), m(n), v(n);
  for (int t = 1; t <= 6; ++t) {
    // Rows 0 and 1 every second and third step; a row with one 0 is touched.
    std::vector<float> g(n);
    const auto touch = [&](int64_t row) {
      g[4 + 3 * row] = 0.5f * t;
      g[4 + 3 * row + 2] = -1;
    };
    if (t % 2 == 0) touch(0);
    if (t % 3 == 0) touch(1);
    if (t == 4) touch(5);
    ASSERT_OK(optimizer->Step(t, 1, {p.data(), n}, {g.data(), n},
                              {{first.data(), n}, {second.data(), n}, {}}));
    for (int64_t i = 0; i < n; ++i) {
      const bool in_table = i >= 4 && i < 22;
      const int64_t row = (i - 4) / 3;
      const bool touched = (row == 0 && t % 2 == 0) ||
                           (row == 1 && t % 3 == 0) || (row == 5 && t == 4);
      if (!in_table || touched) {
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
        const double decay = i < 22 ? o.weight_decay : 0;
        want[i] -=
            o.learning_rate_other *
            (m[i] / (1 - std::pow(o.beta1, t)) /
                 (std::sqrt(v[i] / (1 - std::pow(o.beta2, t))) + o.epsilon) +
             decay * want[i]);
      }
      ASSERT_NEAR(p[i], want[i], 1e-5) << "step " << t << ", " << i;
      ASSERT_NEAR(first[i], m[i], 1e-5) << "step " << t << ", " << i;
    }
  }
  EXPECT_EQ(p[4 + 3 * 2], 1.0f);  // never touched
}

TEST_F(AdamWTest, TablesByRowwiseAdagrad) {
  ParameterLayout layout;
  layout.Add("weight", {2}, ParameterKind::kDense, false);
  layout.SetTable(layout.Add("table", {3, 2}, ParameterKind::kDense, false));
  AdamWOptions o = Options();
  o.rowwise_adagrad = true;
  o.learning_rate_tables = 0.1;
  o.weight_decay = 0;
  o.clip_norm = 0;
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(o, layout, backend_.get()));
  std::vector<float> p(8, 1.0f), first(8), second(8);
  // Row 0 has the gradient (3, 4) in both steps, row 1 has (1, 0) in the
  // second, row 2 none.
  for (int t = 1; t <= 2; ++t) {
    const std::vector<float> g = {0, 0, 3, 4, t == 2 ? 1.0f : 0.0f, 0, 0, 0};
    ASSERT_OK(optimizer->Step(t, 1, {p.data(), 8}, {g.data(), 8},
                              {{first.data(), 8}, {second.data(), 8}, {}}));
  }
  const double row0 = 0.1 / std::sqrt(12.5) + 0.1 / std::sqrt(25);
  EXPECT_NEAR(p[2], 1 - 3 * row0, 1e-6);
  EXPECT_NEAR(p[3], 1 - 4 * row0, 1e-6);
  EXPECT_NEAR(p[4], 1 - 0.1 / std::sqrt(0.5), 1e-6);
  for (int i : {0, 1, 5, 6, 7}) EXPECT_EQ(p[i], 1.0f) << i;
  EXPECT_THAT(second, ::testing::ElementsAre(0, 0, 25, 0, 0.5f, 0, 0, 0));
  EXPECT_THAT(first, ::testing::Each(0));
}

TEST_F(AdamWTest, AllRowsOfTablesDecayAndKeepMoving) {
  ParameterLayout layout;
  layout.SetTable(layout.Add("table", {2, 2}, ParameterKind::kDense, false));
  AdamWOptions o = Options();
  o.all_rows = true;
  o.learning_rate_tables = 0.1;
  o.weight_decay = 0.5;
  o.clip_norm = 0;
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(o, layout, backend_.get()));
  std::vector<float> p(4, 1.0f), first(4), second(4);
  const auto step = [&](int t, std::vector<float> g) {
    return optimizer
        ->Step(t, 1, {p.data(), 4}, {g.data(), 4},
               {{first.data(), 4}, {second.data(), 4}, {}})
        .status();
  };
  ASSERT_OK(step(1, {2, 0, 0, 0}));
  // The first update of AdamW is one rate long; without a gradient a value
  // decays only.
  EXPECT_NEAR(p[0], 1 - 0.1 * (1 + 0.5), 1e-6);
  EXPECT_NEAR(p[2], 1 - 0.1 * 0.5, 1e-6);
  const float before = p[0];
  ASSERT_OK(step(2, {0, 0, 0, 0}));
  EXPECT_LT(p[0], before * (1 - 0.1f * 0.5f) - 0.01f);  // its moment lives on
}

TEST_F(AdamWTest, ClipsByTheGlobalNorm) {
  double squares = 0;
  for (float g : gradients_) squares += double{g} * g;
  AdamWOptions options = Options();
  options.clip_norm = std::sqrt(squares) / 10;
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(options, layout_, backend_.get()));
  ASSERT_OK_AND_ASSIGN(const double norm, Step(*optimizer, 1, 1));
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-5);
  for (size_t i = 0; i < first_.size(); ++i) {
    EXPECT_NEAR(first_[i], 0.1 * gradients_[i] / 10, 1e-6) << i;
  }
}

TEST_F(AdamWTest, SmallGradientsAreNotScaledUp) {
  AdamWOptions options = Options();
  options.clip_norm = 1e6;
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(options, layout_, backend_.get()));
  ASSERT_OK(Step(*optimizer, 1, 1));
  EXPECT_NEAR(first_[0], 0.1 * gradients_[0], 1e-6);
}

TEST_F(AdamWTest, GradientThatIsNotFiniteChangesNothing) {
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(Options(), layout_, backend_.get()));
  const std::vector<float> before = parameters_;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    gradients_[3] = bad;
    ASSERT_OK_AND_ASSIGN(const double norm, Step(*optimizer, 1, 1));
    EXPECT_FALSE(std::isfinite(norm));
    EXPECT_EQ(parameters_, before);
  }
}

TEST_F(AdamWTest, BuffersOfAnotherSizeAreRefused) {
  ASSERT_OK_AND_ASSIGN(auto optimizer,
                       AdamW::Create(Options(), layout_, backend_.get()));
  const int64_t n = layout_.size();
  EXPECT_THAT(
      optimizer->Step(1, 1, {parameters_.data(), n}, {gradients_.data(), n - 1},
                      {{first_.data(), n}, {second_.data(), n}, {}}),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
