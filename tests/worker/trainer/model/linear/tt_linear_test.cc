// Tests tensor-train layers against the dense matrix.
#include "worker/trainer/model/linear/tt_linear.h"

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/fakes/forwarding_backend.h"
#include "tests/worker/trainer/model/layer_harness.h"

namespace comera::trainer {
namespace {

constexpr float kThreshold = 0.01f;

int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) product *= mode;
  return product;
}

// The definition, entry by entry in double: W[i, j] is the product of one
// slice of every core with D between them.
std::vector<double> DenseMatrix(const ModelLayout& layout,
                                const std::vector<double>& p,
                                const Factorisation& f) {
  const TensorisedLayer& layer = layout.layers[0];
  const int64_t entries = Product(f.input_modes) * Product(f.output_modes);
  const int order = static_cast<int>(layer.cores.size());
  std::vector<double> w(entries);
  for (int64_t e = 0; e < entries; ++e) {
    std::vector<int64_t> index(order);
    int64_t rest = e;
    for (int i = order - 1; i >= 0; --i) {
      index[i] = rest % layer.modes[i];
      rest /= layer.modes[i];
    }
    std::vector<double> row = {1};
    for (int i = 0; i < order; ++i) {
      const int64_t left = layer.ranks[i], right = layer.ranks[i + 1];
      const double* core = p.data() + layout.parameters[layer.cores[i]].offset;
      std::vector<double> next(right);
      for (int64_t r = 0; r < right; ++r) {
        for (int64_t l = 0; l < left; ++l) {
          next[r] += row[l] * core[(l * layer.modes[i] + index[i]) * right + r];
        }
        if (i + 1 == order) continue;
        const double d = p[layout.parameters[layer.bonds[i]].offset + r];
        next[r] *= d > kThreshold ? d : 0;
      }
      row = next;
    }
    w[e] = row[0];
  }
  return w;
}

struct Case {
  std::string name;
  Factorisation f;
  int64_t outputs = 0;  // 0: all
  // Groups of a ContractedLinear; empty: TtLinear.
  std::vector<int> ends = {};
  bool device = false;  // memory is not the host's
};

// Plans as for a device, and computes on the host.
class DeviceBackend : public kernels::ForwardingBackend {
 public:
  explicit DeviceBackend(std::unique_ptr<kernels::Backend> cpu)
      : ForwardingBackend(cpu.get()), cpu_(std::move(cpu)) {}
  bool in_host_memory() const override { return false; }

 private:
  absl::Status Call(const std::string&, Operation operation) override {
    return operation();
  }

  const std::unique_ptr<kernels::Backend> cpu_;
};

std::unique_ptr<kernels::Backend> MakeBackend(bool device) {
  std::unique_ptr<kernels::Backend> cpu = kernels::CreateCpuBackend({1, 0});
  if (!device) return cpu;
  return std::make_unique<DeviceBackend>(std::move(cpu));
}

class TtLinearTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kRows = 7;

  void SetUp() override {
    const Factorisation& f = GetParam().f;
    inputs_ = Product(f.input_modes);
    all_outputs_ = Product(f.output_modes);
    outputs_ = GetParam().outputs != 0 ? GetParam().outputs : all_outputs_;
    layer_ =
        GetParam().ends.empty()
            ? LayerHarness::ForLinear(inputs_, outputs_, f, kThreshold, kRows,
                                      MakeBackend(GetParam().device))
            : LayerHarness::ForGroups(inputs_, outputs_, f, kThreshold, kRows,
                                      GetParam().ends);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& v : layer_->parameters()) v = normal(random);
    // Rank entries: alive, one of three pruned (at, below and far below the
    // threshold), but at least one alive.
    for (int bond : layer_->layout().layers[0].bonds) {
      const Parameter& d = layer_->layout().parameters[bond];
      for (int64_t i = 0; i < d.size; ++i) {
        const float pruned[] = {kThreshold, 0, -1};
        layer_->parameters()[d.offset + i] =
            i % 3 == 1 ? pruned[i / 3 % 3] : 0.5f + 0.25f * i;
      }
    }
    x_.resize(kRows * inputs_);
    grad_y_.resize(kRows * outputs_);
    for (float& v : x_) v = normal(random);
    for (float& v : grad_y_) v = normal(random);
  }

  // sum(Y * gY), by the definition.
  double Loss(const std::vector<double>& p, const std::vector<float>& x) {
    const std::vector<double> w =
        DenseMatrix(layer_->layout(), p, GetParam().f);
    const int64_t bias = layer_->layout().parameters.Find("layer.bias");
    const double* b = p.data() + layer_->layout().parameters[bias].offset;
    double loss = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < outputs_; ++o) {
        double y = b[o];
        for (int64_t i = 0; i < inputs_; ++i) {
          y += x[r * inputs_ + i] * w[i * all_outputs_ + o];
        }
        loss += y * grad_y_[r * outputs_ + o];
      }
    }
    return loss;
  }

  std::vector<float> Forward(const Step& step, int64_t first, int64_t rows) {
    std::vector<float> y(rows * outputs_);
    EXPECT_OK(layer_->linear().Forward(
        step, first, {x_.data() + first * inputs_, rows, inputs_},
        {y.data(), rows, outputs_}));
    return y;
  }
  void Backward(const Step& step, int64_t first, int64_t rows,
                std::vector<float>* grad_x, bool accumulate) {
    EXPECT_OK(layer_->linear().Backward(
        step, first, {x_.data() + first * inputs_, rows, inputs_},
        {grad_y_.data() + first * outputs_, rows, outputs_},
        {grad_x->data() + first * inputs_, rows, inputs_}, accumulate));
  }

  int64_t inputs_, outputs_, all_outputs_;
  std::unique_ptr<LayerHarness> layer_;
  std::vector<float> x_, grad_y_;
};

TEST_P(TtLinearTest, ForwardIsTheDenseMatrix) {
  const Step step = layer_->step();
  ASSERT_OK(layer_->linear().Contract(step));
  const std::vector<float> y = Forward(step, 0, kRows);
  const std::vector<double> w = DenseMatrix(
      layer_->layout(),
      {layer_->parameters().begin(), layer_->parameters().end()}, GetParam().f);
  const float* bias = layer_->Parameter("bias");
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t o = 0; o < outputs_; ++o) {
      double expected = bias[o], scale = 1;
      for (int64_t i = 0; i < inputs_; ++i) {
        const double term = x_[r * inputs_ + i] * w[i * all_outputs_ + o];
        expected += term;
        scale += std::fabs(term);
      }
      ASSERT_NEAR(y[r * outputs_ + o], expected, 1e-5 * scale);
    }
  }
}

// The loss is linear in every single value, so a difference over any distance
// is its derivative.
TEST_P(TtLinearTest, GradientsAreTheDerivatives) {
  const Step step = layer_->step();
  ASSERT_OK(layer_->linear().Contract(step));
  Forward(step, 0, kRows);
  std::vector<float> grad_x(x_.size(), 100);
  Backward(step, 0, kRows, &grad_x, false);
  ASSERT_OK(layer_->linear().FinishBackward(step));

  std::vector<double> p(layer_->parameters().begin(),
                        layer_->parameters().end());
  for (const Parameter& parameter : layer_->layout().parameters.parameters()) {
    // Across the threshold a rank entry is not linear; small steps stay on
    // their side, except exactly at it.
    const bool rank = parameter.kind == ParameterKind::kRank;
    const double h = rank ? 1e-4 : 1;
    double largest = 1e-3;
    std::vector<double> expected(parameter.size);
    for (int64_t i = 0; i < parameter.size; ++i) {
      const int64_t e = parameter.offset + i;
      const double value = p[e];
      if (rank && value <= kThreshold) continue;  // pruned: 0
      p[e] = value + h;
      const double up = Loss(p, x_);
      p[e] = value - h;
      expected[i] = (up - Loss(p, x_)) / (2 * h);
      p[e] = value;
      largest = std::max(largest, std::fabs(expected[i]));
    }
    for (int64_t i = 0; i < parameter.size; ++i) {
      ASSERT_NEAR(layer_->gradients()[parameter.offset + i], expected[i],
                  2e-5 * largest)
          << parameter.name << "[" << i << "]";
    }
  }
  std::vector<float> x = x_;
  for (size_t i = 0; i < x.size(); i += 3) {
    x[i] = x_[i] + 1;
    const double up = Loss(p, x);
    x[i] = x_[i] - 1;
    const double expected = (up - Loss(p, x)) / 2;
    x[i] = x_[i];
    ASSERT_NEAR(grad_x[i], expected, 1e-4 * (1 + std::fabs(expected)));
  }
}

TEST_P(TtLinearTest, RowBlocksAddUp) {
  const Step step = layer_->step();
  std::vector<float> whole_grad_x(x_.size()), grad_x(x_.size(), 1);
  ASSERT_OK(layer_->linear().Contract(step));
  Forward(step, 0, kRows);
  Backward(step, 0, kRows, &whole_grad_x, false);
  ASSERT_OK(layer_->linear().FinishBackward(step));
  const std::vector<float> whole = layer_->gradients();

  std::fill(layer_->gradients().begin(), layer_->gradients().end(), 0.0f);
  ASSERT_OK(layer_->linear().Contract(step));
  for (const auto& [first, rows] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 3}}) {
    Forward(step, first, rows);
    Backward(step, first, rows, &grad_x, true);
  }
  ASSERT_OK(layer_->linear().FinishBackward(step));
  double scale = 0;
  for (float g : whole) scale = std::max(scale, std::fabs(double{g}));
  for (size_t i = 0; i < whole.size(); ++i) {
    ASSERT_NEAR(layer_->gradients()[i], whole[i], 1e-5 * scale);
  }
  for (size_t i = 0; i < grad_x.size(); ++i) {
    // Accumulated on the 1 that was there.
    ASSERT_NEAR(grad_x[i], 1 + whole_grad_x[i],
                1e-5 * (1 + std::fabs(whole_grad_x[i])));
  }
}

// A block that neither forms Y nor X of its own: everything through the views.
TEST_P(TtLinearTest, RankSpaceIsTheSameLayer) {
  const Step step = layer_->step();
  ASSERT_OK(layer_->linear().Contract(step));
  const std::vector<float> y = Forward(step, 0, kRows);
  std::vector<float> whole_grad_x(x_.size()), grad_x(x_.size());
  Backward(step, 0, kRows, &whole_grad_x, false);
  ASSERT_OK(layer_->linear().FinishBackward(step));
  const std::vector<float> whole = layer_->gradients();

  std::fill(layer_->gradients().begin(), layer_->gradients().end(), 0.0f);
  RankSpaceLinear* tt = layer_->linear().rank_space();
  if (!GetParam().ends.empty()) {
    EXPECT_EQ(tt, nullptr);  // no other path has one
    return;
  }
  ASSERT_NE(tt, nullptr);
  kernels::Backend& backend = layer_->backend();
  const int64_t r = tt->rank();
  const kernels::ConstMatrix x(x_.data(), kRows, inputs_);
  const kernels::ConstMatrix grad_y(grad_y_.data(), kRows, outputs_);
  ASSERT_OK(layer_->linear().Contract(step));
  ASSERT_OK(backend.Gemm(false, false, 1, x, tt->A(), 0, tt->T(0, kRows)));
  std::vector<float> expanded(y.size());
  ASSERT_OK(backend.Gemm(false, false, 1, tt->TWithOnes(0, kRows),
                         tt->BWithBias(), 0,
                         {expanded.data(), kRows, outputs_}));
  EXPECT_EQ(expanded, y);

  const kernels::ConstMatrix b(tt->BWithBias().data, r, outputs_);
  std::vector<float> u(kRows * r);
  ASSERT_OK(tt->BeginBackward());
  ASSERT_OK(backend.Gemm(true, false, 1, tt->TWithOnes(0, kRows), grad_y, 1,
                         tt->grad_b()));
  ASSERT_OK(backend.Gemm(false, true, 1, grad_y, b, 0, {u.data(), kRows, r}));
  ASSERT_OK(tt->BeginBackward());  // keeps what was added
  ASSERT_OK(tt->BackwardProject(x, {u.data(), kRows, r},
                                {grad_x.data(), kRows, inputs_}, false));
  ASSERT_OK(layer_->linear().FinishBackward(step));
  EXPECT_EQ(grad_x, whole_grad_x);
  EXPECT_EQ(layer_->gradients(), whole);
}

// Two cores with a SiLU between them against the formula, and its derivatives
// against differences of it.
class SiluLinearTest : public ::testing::Test {
 protected:
  static constexpr int64_t kInputs = 5, kRank = 3, kOutputs = 4, kRows = 6;

  void SetUp() override {
    Factorisation f = {{kInputs}, {kOutputs}, {kRank}};
    f.silu = true;
    layer_ = LayerHarness::ForLinear(kInputs, kOutputs, f, kThreshold, kRows);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& v : layer_->parameters()) v = normal(random);
    const float entries[kRank] = {1.25f, kThreshold, 0.5f};
    std::copy_n(entries, kRank, layer_->Parameter("rank.0"));
    x_.resize(kRows * kInputs);
    grad_y_.resize(kRows * kOutputs);
    for (float& v : x_) v = normal(random);
    for (float& v : grad_y_) v = normal(random);
  }

  const double* At(const std::vector<double>& p, const char* name) const {
    const ParameterLayout& layout = layer_->layout().parameters;
    return p.data() + layout[layout.Find(std::string("layer.") + name)].offset;
  }

  double Y(const std::vector<double>& p, const std::vector<float>& x,
           int64_t row, int64_t output) const {
    double y = At(p, "bias")[output];
    for (int64_t k = 0; k < kRank; ++k) {
      const double d = At(p, "rank.0")[k];
      double t = 0;
      for (int64_t i = 0; i < kInputs; ++i) {
        t += x[row * kInputs + i] * At(p, "core.0")[i * kRank + k];
      }
      t *= d > kThreshold ? d : 0;
      y += t / (1 + std::exp(-t)) * At(p, "core.1")[k * kOutputs + output];
    }
    return y;
  }

  // sum(Y * gY).
  double Loss(const std::vector<double>& p, const std::vector<float>& x) const {
    double loss = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        loss += Y(p, x, r, o) * grad_y_[r * kOutputs + o];
      }
    }
    return loss;
  }

  std::vector<double> Parameters() const {
    return {layer_->parameters().begin(), layer_->parameters().end()};
  }

  std::unique_ptr<LayerHarness> layer_;
  std::vector<float> x_, grad_y_;
};

TEST_F(SiluLinearTest, ForwardIsTheFormula) {
  const Step step = layer_->step();
  std::vector<float> y(kRows * kOutputs), again(y);
  ASSERT_OK(layer_->linear().Contract(step));
  const kernels::ConstMatrix x(x_.data(), kRows, kInputs);
  ASSERT_OK(layer_->linear().Forward(step, 0, x, {y.data(), kRows, kOutputs}));
  ASSERT_OK(
      layer_->linear().Repeat(step, 0, x, {again.data(), kRows, kOutputs}));
  for (int64_t i = 0; i < kRows * kOutputs; ++i) {
    ASSERT_NEAR(y[i], Y(Parameters(), x_, i / kOutputs, i % kOutputs), 1e-5);
  }
  EXPECT_EQ(again, y);
}

TEST_F(SiluLinearTest, BackwardIsItsDerivative) {
  const Step step = layer_->step();
  std::vector<float> y(kRows * kOutputs), grad_x(kRows * kInputs, 1);
  ASSERT_OK(layer_->linear().Contract(step));
  const kernels::ConstMatrix x(x_.data(), kRows, kInputs);
  ASSERT_OK(layer_->linear().Forward(step, 0, x, {y.data(), kRows, kOutputs}));
  ASSERT_OK(layer_->linear().Backward(
      step, 0, x, {grad_y_.data(), kRows, kOutputs},
      {grad_x.data(), kRows, kInputs}, /*accumulate=*/true));
  ASSERT_OK(layer_->linear().FinishBackward(step));
  std::vector<double> p = Parameters();
  constexpr double kStep = 1e-4;
  for (size_t e = 0; e < p.size(); ++e) {
    const double value = p[e];
    p[e] = value + kStep;
    const double up = Loss(p, x_);
    p[e] = value - kStep;
    double expected = (up - Loss(p, x_)) / (2 * kStep);
    p[e] = value;
    // A pruned entry has no gradient; the difference would cross the threshold.
    if (value == double{kThreshold}) expected = 0;
    ASSERT_NEAR(layer_->gradients()[e], expected, 1e-4) << e;
  }
  for (size_t i = 0; i < x_.size(); ++i) {
    std::vector<float> moved = x_;
    moved[i] = x_[i] + 0.01f;
    const double up = Loss(p, moved);
    moved[i] = x_[i] - 0.01f;
    ASSERT_NEAR(grad_x[i], 1 + (up - Loss(p, moved)) / 0.02, 2e-3) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TtLinearTest,
    ::testing::Values(
        Case{"Order2", {{4}, {5}, {3}}, 0},
        Case{"OneInThreeOut", {{6}, {2, 3, 2}, {4, 5, 2}}, 0},
        Case{"ThreeInOneOut", {{2, 2, 3}, {5}, {2, 4, 5}}, 0},
        Case{"TwoTwo", {{3, 4}, {4, 2}, {3, 5, 2}}, 0},
        Case{"ThreeThree", {{2, 3, 2}, {2, 2, 3}, {2, 4, 4, 4, 2}}, 0},
        Case{"ModesOfOne", {{1, 4, 1}, {1, 3}, {1, 2, 2, 2}}, 0},
        Case{"FewerOutputs", {{3, 2}, {3, 3}, {3, 4, 3}}, 7},
        // Filled up to 72.
        Case{"HighRankOnADevice", {{4}, {5}, {67}}, 0, {}, true},
        Case{"HighRankOnADeviceFewerOutputs",
             {{4}, {2, 3}, {67, 3}},
             5,
             {},
             true},
        Case{"Dense", {{2, 3, 2}, {2, 2, 3}, {2, 4, 4, 4, 2}}, 0, {6}},
        Case{"CoreByCore",
             {{2, 3, 2}, {2, 2, 3}, {2, 4, 4, 4, 2}},
             0,
             {1, 2, 3, 4, 5, 6}},
        Case{"Grouped", {{2, 3, 2}, {2, 2, 3}, {2, 4, 4, 4, 2}}, 0, {2, 4, 6}},
        Case{"DenseFewerOutputs", {{3, 2}, {3, 3}, {3, 4, 3}}, 7, {4}},
        Case{"GroupedFewerOutputs", {{3, 2}, {3, 3}, {3, 4, 3}}, 7, {1, 4}}),
    [](const auto& info) { return info.param.name; });

TEST(PrunedLinearTest, OnlyTheBiasIsLeft) {
  const auto layer = LayerHarness::ForPruned(6, 4, {{2, 3}, {2, 2}, {0, 0, 0}});
  ASSERT_EQ(layer->parameters().size(), 4u);
  EXPECT_EQ(layer->linear().rank_space(), nullptr);
  layer->parameters() = {1, 2, 3, 4};
  const std::vector<float> x(18, 7),
      grad_y = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  std::vector<float> y(12), grad_x(18, 5);
  const Step step = layer->step();
  ASSERT_OK(layer->linear().Contract(step));
  ASSERT_OK(
      layer->linear().Forward(step, 0, {x.data(), 3, 6}, {y.data(), 3, 4}));
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  ASSERT_OK(layer->linear().Backward(step, 0, {x.data(), 3, 6},
                                     {grad_y.data(), 3, 4},
                                     {grad_x.data(), 3, 6}, true));
  EXPECT_EQ(grad_x, std::vector<float>(18, 5));
  ASSERT_OK(layer->linear().FinishBackward(step));
  EXPECT_EQ(layer->gradients(), (std::vector<float>{15, 9, 12, 15}));
  ASSERT_OK(layer->linear().Backward(step, 0, {x.data(), 3, 6},
                                     {grad_y.data(), 3, 4},
                                     {grad_x.data(), 3, 6}, false));
  EXPECT_EQ(grad_x, std::vector<float>(18, 0));
}

TEST(DenseLinearTest, EqualsItsDefinition) {
  const auto layer = LayerHarness::ForLinear(2, 3, {}, kThreshold, 2);
  EXPECT_EQ(layer->linear().rank_space(), nullptr);
  const std::vector<float> w = {1, 2, 3, 4, 5, 6}, b = {10, 20, 30};
  std::copy(w.begin(), w.end(), layer->Parameter("weight"));
  std::copy(b.begin(), b.end(), layer->Parameter("bias"));
  const std::vector<float> x = {1, 2, 3, 4}, grad_y = {1, 0, 2, 0, 1, 1};
  std::vector<float> y(6), grad_x(4, 1);
  const Step step = layer->step();
  ASSERT_OK(layer->linear().Contract(step));
  ASSERT_OK(
      layer->linear().Forward(step, 0, {x.data(), 2, 2}, {y.data(), 2, 3}));
  EXPECT_EQ(y, (std::vector<float>{19, 32, 45, 29, 46, 63}));
  ASSERT_OK(layer->linear().Backward(step, 0, {x.data(), 2, 2},
                                     {grad_y.data(), 2, 3},
                                     {grad_x.data(), 2, 2}, true));
  ASSERT_OK(layer->linear().FinishBackward(step));
  EXPECT_EQ(grad_x, (std::vector<float>{8, 17, 6, 12}));
  EXPECT_EQ(layer->gradients(),
            (std::vector<float>{1, 3, 5, 2, 4, 8, 1, 1, 3}));
}

}  // namespace
}  // namespace comera::trainer
