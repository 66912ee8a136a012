// Layers of the other methods against their formulas, entry by entry in double.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/layer_harness.h"

namespace comera::trainer {
namespace {

using Kind = LowRank::Kind;

constexpr int64_t kInputs = 5, kOutputs = 4;
constexpr int64_t kRows = 12;

struct Case {
  std::string name;
  LowRank form;
};

class LowRankLinearTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    Factorisation f;
    f.low_rank = GetParam().form;
    layer_ = LayerHarness::ForLinear(kInputs, kOutputs, f, 0.01f, kRows);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& v : layer_->parameters()) v = normal(random);
    x_.resize(kRows * kInputs);
    grad_y_.resize(kRows * kOutputs);
    for (float& v : x_) v = normal(random);
    for (float& v : grad_y_) v = normal(random);
    std::vector<LteHeadRun> runs;
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t head = HeadOf(row);
      if (runs.empty() || runs.back().head != head) runs.push_back({0, head});
      runs.back().end = row + 1;
    }
    layer_->head_runs().Set(runs);
  }

  // LTE: two rows here, two there.
  static int64_t HeadOf(int64_t row) {
    return (row / 2 * 3 + 1) % GetParam().form.heads;
  }

  Step TrainStep(bool train = true) {
    Step step = layer_->step();
    step.train = train;
    return step;
  }

  const double* At(const std::vector<double>& p, const char* name) {
    const ParameterLayout& layout = layer_->layout().parameters;
    return p.data() + layout[layout.Find(std::string("layer.") + name)].offset;
  }

  // Entry (row, output) of Y, by the definition.
  double Y(const std::vector<double>& p, const std::vector<float>& x,
           int64_t row, int64_t output, bool train) {
    const LowRank& form = GetParam().form;
    const int64_t width = form.heads * form.rank;
    const float* in = x.data() + row * kInputs;
    const double* a = At(p, "a");
    const double* b = At(p, "b");
    double y = At(p, "bias")[output];
    if (form.kind != Kind::kCola) {
      for (int64_t i = 0; i < kInputs; ++i) {
        y += in[i] * At(p, "weight")[i * kOutputs + output];
      }
    }
    const int64_t own = HeadOf(row);
    for (int64_t k = 0; k < width; ++k) {
      double t = 0;
      for (int64_t i = 0; i < kInputs; ++i) t += in[i] * a[i * width + k];
      if (form.kind == Kind::kCola) t = t / (1 + std::exp(-t));
      const double factor = !train                 ? form.scale / form.heads
                            : k / form.rank == own ? form.scale
                                                   : 0;
      y += factor * t * b[k * kOutputs + output];
      if (form.kind != Kind::kLte) continue;
      double previous = 0;
      for (int64_t i = 0; i < kInputs; ++i) {
        previous += in[i] * At(p, "previous_a")[i * width + k];
      }
      y -= factor * previous * At(p, "previous_b")[k * kOutputs + output];
    }
    return y;
  }

  // sum(Y * gY).
  double Loss(const std::vector<double>& p, const std::vector<float>& x) {
    double loss = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        loss += Y(p, x, r, o, true) * grad_y_[r * kOutputs + o];
      }
    }
    return loss;
  }

  kernels::ConstMatrix X(int64_t first, int64_t count) {
    return {x_.data() + first * kInputs, count, kInputs};
  }

  std::unique_ptr<LayerHarness> layer_;
  std::vector<float> x_, grad_y_;
};

// Blocks of rows that end within a run.
constexpr int64_t kBlocks[] = {0, 5, kRows};

TEST_P(LowRankLinearTest, ForwardIsTheFormula) {
  const std::vector<double> p(layer_->parameters().begin(),
                              layer_->parameters().end());
  for (bool train : {true, false}) {
    const Step step = TrainStep(train);
    std::vector<float> y(kRows * kOutputs, NAN), again(y);
    ASSERT_OK(layer_->linear().Contract(step));
    for (int b = 0; b < 2; ++b) {
      const int64_t first = kBlocks[b], count = kBlocks[b + 1] - first;
      ASSERT_OK(layer_->linear().Forward(
          step, first, X(first, count),
          {y.data() + first * kOutputs, count, kOutputs}));
    }
    for (int64_t i = 0; i < kRows * kOutputs; ++i) {
      ASSERT_NEAR(y[i], Y(p, x_, i / kOutputs, i % kOutputs, train), 1e-5)
          << "train " << train << ", entry " << i;
    }
    ASSERT_OK(layer_->linear().Repeat(step, 0, X(0, kRows),
                                      {again.data(), kRows, kOutputs}));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(again[i], y[i], 1e-5);
  }
}

TEST_P(LowRankLinearTest, BackwardIsItsDerivative) {
  const Step step = TrainStep();
  std::vector<float> y(kRows * kOutputs), grad_x(kRows * kInputs, 0.25f);
  ASSERT_OK(layer_->linear().Contract(step));
  ASSERT_OK(layer_->linear().Forward(step, 0, X(0, kRows),
                                     {y.data(), kRows, kOutputs}));
  for (int b = 0; b < 2; ++b) {
    const int64_t first = kBlocks[b], count = kBlocks[b + 1] - first;
    ASSERT_OK(layer_->linear().Backward(
        step, first, X(first, count),
        {grad_y_.data() + first * kOutputs, count, kOutputs},
        {grad_x.data() + first * kInputs, count, kInputs},
        /*accumulate=*/b == 0));
  }
  ASSERT_OK(layer_->linear().FinishBackward(step));

  std::vector<double> p(layer_->parameters().begin(),
                        layer_->parameters().end());
  constexpr double kStep = 1e-5;
  // Gradients end where the frozen weight begins.
  for (size_t i = 0; i < layer_->gradients().size(); ++i) {
    const double before = p[i];
    p[i] = before + kStep;
    const double above = Loss(p, x_);
    p[i] = before - kStep;
    const double slope = (above - Loss(p, x_)) / (2 * kStep);
    p[i] = before;
    ASSERT_NEAR(layer_->gradients()[i], slope, 1e-4) << "parameter " << i;
  }
  for (int64_t i = 0; i < kRows * kInputs; ++i) {
    std::vector<float> x = x_;
    x[i] = x_[i] + 0.0625f;
    const double above = Loss(p, x);
    x[i] = x_[i] - 0.0625f;
    const double slope = (above - Loss(p, x)) / 0.125;
    // Second-order differences of silu; the other forms are linear in x.
    const double tolerance = GetParam().form.kind == Kind::kCola ? 0.02 : 1e-4;
    const double old = i < kBlocks[1] * kInputs ? 0.25 : 0;
    ASSERT_NEAR(grad_x[i], slope + old, tolerance) << "x " << i;
  }
}

TEST_P(LowRankLinearTest, AGradientOfXThatIsNotWanted) {
  const Step step = TrainStep();
  std::vector<float> y(kRows * kOutputs);
  ASSERT_OK(layer_->linear().Contract(step));
  ASSERT_OK(layer_->linear().Forward(step, 0, X(0, kRows),
                                     {y.data(), kRows, kOutputs}));
  EXPECT_OK(layer_->linear().Backward(step, 0, X(0, kRows),
                                      {grad_y_.data(), kRows, kOutputs},
                                      {nullptr, kRows, kInputs}, false));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, LowRankLinearTest,
    ::testing::Values(Case{"Lora", {Kind::kLora, 2, 1, 0.5}},
                      Case{"LteTwoHeads", {Kind::kLte, 2, 2, 1.5}},
                      Case{"LteFourHeads", {Kind::kLte, 1, 4, 0.75}},
                      Case{"LteEightHeads", {Kind::kLte, 3, 8, 1}},
                      Case{"Cola", {Kind::kCola, 3, 1, 1}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace comera::trainer
