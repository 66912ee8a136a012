// Compares gradients with differences of the loss.
#include "tests/worker/trainer/model/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace comera::trainer {

void EnlargeWeights(TestModel& m) {
  m.SpreadRanks();
  for (const Parameter& p : m.model->layout().parameters()) {
    const bool table = p.name.find("embedding") != std::string::npos;
    float factor = 1;
    if (p.kind == ParameterKind::kCore) {
      factor = table ? 3.1f : 1.6f;  // three cores and more
    } else if (p.shape.size() == 2) {
      // Two factors make a weight.
      const bool factor_of_two =
          absl::EndsWith(p.name, ".a") || absl::EndsWith(p.name, ".b");
      factor = table ? 30 : factor_of_two ? 1.6f : 3;
    }
    for (int64_t i = 0; i < p.size; ++i) m.parameters[p.offset + i] *= factor;
  }
}

namespace {

// By how much the slope of the loss along the gradient of `p` differs from the
// gradient's length, `norm`: of several distances the best, as one that is
// short drowns in float's rounding, and one that is long shows curvature.
double SlopeError(TestModel& m, const Batch& batch, const Parameter& p,
                  double norm) {
  const std::vector<float> parameters = m.parameters;
  const auto at = [&](double distance) {
    for (int64_t e = p.offset; e < p.offset + p.size; ++e) {
      m.parameters[e] =
          static_cast<float>(parameters[e] + distance * m.gradients[e] / norm);
    }
    return m.Loss(batch, /*train=*/true);
  };
  double best = norm;
  for (double h : {1e-3, 3e-3, 1.5e-2}) {
    const double slope = (at(h) - at(-h)) / (2 * h);
    best = std::min(best, std::fabs(slope - norm));
  }
  m.parameters = parameters;
  return best;
}

}  // namespace

int ExpectGradientsAreDerivatives(
    TestModel& m, const Batch& batch,
    const ::testing::Matcher<std::string>& without) {
  std::fill(m.gradients.begin(), m.gradients.end(), 0.0f);
  EXPECT_GT(m.Gradient(batch), 0);
  int compared = 0;
  for (const Parameter& p : m.model->layout().parameters()) {
    // A pruned layer's parameters have no values.
    if (p.kind == ParameterKind::kFrozen || p.size == 0) continue;
    double norm = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      norm += std::pow(double{m.gradients[p.offset + i]}, 2);
    }
    norm = std::sqrt(norm);
    if (norm < 1e-4) {
      EXPECT_THAT(p.name, without);
      continue;
    }
    EXPECT_LT(SlopeError(m, batch, p, norm), 2e-2 * norm + 2e-4)
        << p.name << ", norm " << norm;
    ++compared;
  }
  return compared;
}

void ExpectNear(const std::vector<float>& actual,
                const std::vector<float>& expected, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (float v : expected) largest = std::max(largest, std::fabs(double{v}));
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], relative * largest) << "at " << i;
  }
}

}  // namespace comera::trainer
