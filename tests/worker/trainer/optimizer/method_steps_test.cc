// One layer trained for several steps under LoRA, LTE and CoLA, against the
// same written out in double: forward, gradient, Adam, merge.
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/layer_harness.h"
#include "tests/worker/trainer/optimizer/double_adam.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/optimizer/lte_optimizer.h"

namespace comera::trainer {
namespace {

using Kind = LowRank::Kind;

constexpr int64_t kInputs = 4, kOutputs = 3, kSamples = 8;
constexpr int kSteps = 11, kMergeEvery = 4;
constexpr double kRate = 0.03;

struct Case {
  std::string name;
  LowRank form;
};

double Silu(double t) { return t / (1 + std::exp(-t)); }

// Parameters by name below the layer, in double, and how one step moves them.
class Reference {
 public:
  explicit Reference(const LowRank& form) : form_(form) {}
  std::map<std::string, std::vector<double>> values;

  // Minimises the mean over samples of |Y - target|^2 / 2; returns it.
  double Step(int t, const std::vector<float>& x,
              const std::vector<float>& target) {
    const int64_t width = form_.heads * form_.rank;
    const bool lte = form_.kind == Kind::kLte;
    std::map<std::string, std::vector<double>> grad;
    for (const auto& [name, v] : values) grad[name].resize(v.size());
    double loss = 0;
    for (int64_t s = 0; s < kSamples; ++s) {
      const int64_t head = s / (kSamples / form_.heads);
      const int64_t begin = head * form_.rank, end = begin + form_.rank;
      const float* in = x.data() + s * kInputs;
      std::vector<double> h(width), previous(width), u(width);
      for (int64_t k = begin; k < end; ++k) {
        for (int64_t i = 0; i < kInputs; ++i) {
          h[k] += in[i] * values["a"][i * width + k];
          if (lte) previous[k] += in[i] * values["previous_a"][i * width + k];
        }
      }
      for (int64_t o = 0; o < kOutputs; ++o) {
        double y = values["bias"][o];
        if (form_.kind != Kind::kCola) {
          for (int64_t i = 0; i < kInputs; ++i) {
            y += in[i] * values["weight"][i * kOutputs + o];
          }
        }
        for (int64_t k = begin; k < end; ++k) {
          y += form_.scale * Activation(h[k]) * values["b"][k * kOutputs + o];
          if (!lte) continue;
          y -= form_.scale * previous[k] *
               values["previous_b"][k * kOutputs + o];
        }
        const double gy = (y - target[s * kOutputs + o]) / kSamples;
        loss += gy * gy * kSamples / 2;
        grad["bias"][o] += gy;
        for (int64_t k = begin; k < end; ++k) {
          grad["b"][k * kOutputs + o] += form_.scale * Activation(h[k]) * gy;
          u[k] += form_.scale * values["b"][k * kOutputs + o] * gy;
        }
      }
      for (int64_t k = begin; k < end; ++k) {
        const double slope = u[k] * Derivative(h[k]);
        for (int64_t i = 0; i < kInputs; ++i) {
          grad["a"][i * width + k] += in[i] * slope;
        }
      }
    }
    for (const char* name : {"a", "b", "bias"}) {
      const auto direction = adam_[name].Direction(grad[name], t);
      for (size_t i = 0; i < direction.size(); ++i) {
        values[name][i] -= kRate * direction[i];
      }
    }
    if (lte && t % kMergeEvery == 0) Merge();
    return loss;
  }

 private:
  double Activation(double t) const {
    return form_.kind == Kind::kCola ? Silu(t) : t;
  }
  double Derivative(double t) const {
    if (form_.kind != Kind::kCola) return 1;
    constexpr double kStep = 1e-5;
    return (Silu(t + kStep) - Silu(t - kStep)) / (2 * kStep);
  }

  // W += scale / heads sum_n (A_n B_n - A'_n B'_n); A' = A, B' = B.
  void Merge() {
    const int64_t width = form_.heads * form_.rank;
    for (int64_t i = 0; i < kInputs; ++i) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        for (int64_t n = 0; n < form_.heads; ++n) {
          double product = 0;
          for (int64_t k = n * form_.rank; k < (n + 1) * form_.rank; ++k) {
            product +=
                values["a"][i * width + k] * values["b"][k * kOutputs + o] -
                values["previous_a"][i * width + k] *
                    values["previous_b"][k * kOutputs + o];
          }
          values["weight"][i * kOutputs + o] +=
              form_.scale / form_.heads * product;
        }
      }
    }
    values["previous_a"] = values["a"];
    values["previous_b"] = values["b"];
  }

  const LowRank form_;
  std::map<std::string, DoubleAdam> adam_;
};

class MethodStepsTest : public ::testing::TestWithParam<Case> {};

TEST_P(MethodStepsTest, FollowTheFormulas) {
  const LowRank& form = GetParam().form;
  Factorisation f;
  f.low_rank = form;
  const auto layer =
      LayerHarness::ForLinear(kInputs, kOutputs, f, 0.01f, kSamples);
  const ParameterLayout& layout = layer->layout().parameters;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(kSamples * kInputs), target(kSamples * kOutputs);
  for (float& v : x) v = normal(random);
  for (float& v : target) v = normal(random);
  for (float& v : layer->parameters()) v = 0.5f * normal(random);
  Reference reference(form);
  for (const Parameter& p : layout.parameters()) {
    const auto begin = layer->parameters().begin() + p.offset;
    reference.values[p.name.substr(6)].assign(begin, begin + p.size);
  }

  std::vector<LteHeadRun> runs;
  for (int64_t n = 0; n < form.heads; ++n) {
    runs.push_back({(n + 1) * kSamples / form.heads, n});
  }
  layer->head_runs().Set(runs);
  AdamWOptions options;
  options.learning_rate_other = kRate;
  options.clip_norm = 0;
  std::unique_ptr<Optimizer> optimizer;
  if (form.kind == Kind::kLte) {
    ASSERT_OK_AND_ASSIGN(
        optimizer, LteOptimizer::Create(options, kMergeEvery,
                                        {{"layer", form.heads, form.scale}},
                                        layout, &layer->backend()));
  } else {
    ASSERT_OK_AND_ASSIGN(optimizer,
                         AdamW::Create(options, layout, &layer->backend()));
  }
  std::vector<float> first(layout.moments_size()), second(first.size());
  std::vector<double> losses;
  for (int t = 1; t <= kSteps; ++t) {
    const Step step = layer->step();
    std::fill(layer->gradients().begin(), layer->gradients().end(), 0.0f);
    std::vector<float> y(kSamples * kOutputs);
    const kernels::ConstMatrix in(x.data(), kSamples, kInputs);
    ASSERT_OK(layer->linear().Contract(step));
    ASSERT_OK(
        layer->linear().Forward(step, 0, in, {y.data(), kSamples, kOutputs}));
    for (size_t i = 0; i < y.size(); ++i) y[i] = (y[i] - target[i]) / kSamples;
    ASSERT_OK(layer->linear().Backward(step, 0, in,
                                       {y.data(), kSamples, kOutputs},
                                       {nullptr, kSamples, kInputs}, false));
    ASSERT_OK(layer->linear().FinishBackward(step));
    const int64_t moments = layout.moments_size();
    ASSERT_OK(optimizer->Step(
        t, 1, {layer->parameters().data(), layout.size()},
        {layer->gradients().data(), layout.trained_size()},
        {{first.data(), moments}, {second.data(), moments}, {}}));
    losses.push_back(reference.Step(t, x, target));
    for (const Parameter& p : layout.parameters()) {
      const std::vector<double>& want = reference.values[p.name.substr(6)];
      for (int64_t i = 0; i < p.size; ++i) {
        ASSERT_NEAR(layer->parameters()[p.offset + i], want[i], 1e-4)
            << "step " << t << ", " << p.name << "[" << i << "]";
      }
    }
  }
  EXPECT_LT(losses.back(), losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    Forms, MethodStepsTest,
    ::testing::Values(Case{"Lora", {Kind::kLora, 2, 1, 0.5}},
                      Case{"LteTwoHeads", {Kind::kLte, 2, 2, 1.5}},
                      Case{"LteFourHeads", {Kind::kLte, 1, 4, 1}},
                      Case{"Cola", {Kind::kCola, 2, 1, 1}}),
    [](const auto& info) { return info.param.name; });

TEST(LteOptimizerTest, Refusals) {
  const auto backend = kernels::CreateCpuBackend({1});
  ParameterLayout layout;
  layout.Add("layer.a", {2, 2}, ParameterKind::kDense, false);
  EXPECT_THAT(
      LteOptimizer::Create({}, 4, {{"layer", 2, 1}}, layout, backend.get()),
      StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(LteOptimizer::Create({}, 0, {}, layout, backend.get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
