// A linear layer without a bias, in every form: it computes what it does with a
// bias of 0.
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/layer_harness.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

constexpr int64_t kInputs = 6, kOutputs = 10, kRows = 7;
constexpr float kThreshold = 0.01f;

using Make = std::function<std::unique_ptr<LayerHarness>(bool bias)>;

struct Form {
  std::string name;
  Make make;
};

Make Linear(const Factorisation& f) {
  return [f](bool bias) {
    return LayerHarness::ForLinear(kInputs, kOutputs, f, kThreshold, kRows,
                                   nullptr, bias);
  };
}

std::vector<Form> Forms() {
  using Kind = LowRank::Kind;
  const Factorisation cores = {{3, 2}, {2, 5}, {3, 4, 3}};
  // 12 columns for 10 outputs.
  const Factorisation wide = {{3, 2}, {3, 4}, {3, 4, 3}};
  const auto low_rank = [](const LowRank& form) {
    return Factorisation{{}, {}, {}, form};
  };
  return {
      {"Dense", Linear({})},
      {"TensorTrain", Linear(cores)},
      {"TensorTrainOfMoreColumns", Linear(wide)},
      {"Contracted",
       [cores](bool bias) {
         return LayerHarness::ForGroups(kInputs, kOutputs, cores, kThreshold,
                                        kRows, {1, 2, 3, 4}, bias);
       }},
      {"Pruned",
       [](bool bias) {
         return LayerHarness::ForPruned(kInputs, kOutputs,
                                        {{3, 2}, {2, 5}, {0, 0, 0}}, bias);
       }},
      {"Lora", Linear(low_rank({Kind::kLora, 3, 1, 0.5}))},
      {"Lte", Linear(low_rank({Kind::kLte, 2, 1, 1.5}))},
      {"Cola", Linear(low_rank({Kind::kCola, 4, 1, 1}))},
      {"LinearCola", Linear(low_rank({Kind::kCola, 4, 1, 1, true}))},
  };
}

std::vector<float> Random(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

struct Result {
  std::vector<float> y, repeated, grad_x;
};

Result RunLayer(LayerHarness& layer) {
  const std::vector<float> x = Random(kRows * kInputs, 1);
  const std::vector<float> grad_y = Random(kRows * kOutputs, 2);
  Result result;
  result.y.assign(kRows * kOutputs, 7);
  result.repeated = result.y;
  result.grad_x.assign(kRows * kInputs, 7);
  const Step step = layer.step();
  const ConstMatrix in(x.data(), kRows, kInputs);
  EXPECT_OK(layer.linear().Contract(step));
  EXPECT_OK(layer.linear().Forward(step, 0, in,
                                   Matrix(result.y.data(), kRows, kOutputs)));
  EXPECT_OK(layer.linear().Repeat(
      step, 0, in, Matrix(result.repeated.data(), kRows, kOutputs)));
  EXPECT_OK(layer.linear().Backward(
      step, 0, in, ConstMatrix(grad_y.data(), kRows, kOutputs),
      Matrix(result.grad_x.data(), kRows, kInputs), false));
  EXPECT_OK(layer.linear().FinishBackward(step));
  return result;
}

void ExpectClose(const std::vector<float>& got,
                 const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-4f) << i;
  }
}

class BiasFreeTest : public ::testing::TestWithParam<Form> {};

TEST_P(BiasFreeTest, IsTheLayerWithABiasOfZero) {
  const std::unique_ptr<LayerHarness> with = GetParam().make(true);
  const std::unique_ptr<LayerHarness> without = GetParam().make(false);
  ASSERT_EQ(without->layout().parameters.Find("layer.bias"), -1);
  uint32_t seed = 10;
  for (const Parameter& p : without->layout().parameters.parameters()) {
    const std::vector<float> values = Random(p.size, ++seed);
    for (int64_t i = 0; i < p.size; ++i) {
      // Rank entries are positive.
      const float value = p.kind == ParameterKind::kRank
                              ? 0.5f + 0.1f * static_cast<float>(i)
                              : values[i];
      without->parameters()[p.offset + i] = value;
      with->Parameter(p.name.substr(6))[i] = value;
    }
  }
  const Result expected = RunLayer(*with), actual = RunLayer(*without);
  ExpectClose(actual.y, expected.y);
  ExpectClose(actual.repeated, expected.y);
  ExpectClose(actual.grad_x, expected.grad_x);
  for (const Parameter& p : without->layout().parameters.parameters()) {
    if (p.kind == ParameterKind::kFrozen) continue;
    const std::string name = p.name.substr(6);
    for (int64_t i = 0; i < p.size; ++i) {
      ASSERT_NEAR(without->Gradient(name)[i], with->Gradient(name)[i], 1e-3f)
          << p.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, BiasFreeTest, ::testing::ValuesIn(Forms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace comera::trainer
