// One model on every contraction path, and with pruned layers.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cost_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"

namespace comera::trainer {
namespace {

using kernels::TtPath;

std::vector<ModelConfig> Encoders() {
  return {SmallConfig(v1::ModelSpec::ENCODER_CLASSIFIER),
          SmallConfig(v1::ModelSpec::MASKED_LM)};
}

std::vector<ModelConfig> AllModels() {
  std::vector<ModelConfig> models = Encoders();
  models.push_back(SmallDecoder(v1::ModelSpec::LLAMA));
  models.push_back(SmallDecoder(v1::ModelSpec::GPT2));
  return models;
}

Batch SomeBatch(const ModelConfig& config) {
  const bool classifier = config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
  return RandomBatch(config, 3, classifier ? 3 : 7, 1, 5);
}

// The planner's own choice among them.
TEST(PathsTest, EveryPathIsTheSameModel) {
  for (ModelConfig config : AllModels()) {
    config.dropout = 0.1f;
    const Batch batch = SomeBatch(config);
    TestModel usual(config, 3);
    usual.SpreadRanks();
    const double loss = usual.Gradient(batch);
    double scale = 0;
    for (float g : usual.gradients)
      scale = std::max(scale, std::fabs(double{g}));
    for (const std::optional<TtPath> path :
         {std::optional<TtPath>(TtPath::kCoreByCore),
          std::optional<TtPath>(TtPath::kDense), std::optional<TtPath>()}) {
      config.forced_path = path;
      TestModel other(config, 3);
      other.SpreadRanks();
      EXPECT_NEAR(other.Gradient(batch), loss, 1e-5 * std::fabs(loss));
      for (size_t i = 0; i < usual.gradients.size(); ++i) {
        ASSERT_NEAR(other.gradients[i], usual.gradients[i], 2e-5 * scale)
            << "at " << i;
      }
    }
  }
}

double MultiplyAdds(const ModelConfig& config) {
  const auto cpu = kernels::CreateCpuBackend({1, 0});
  kernels::OperationCosts costs;
  const auto counting = kernels::CreateCostBackend(cpu.get(), {}, &costs);
  auto model = CreateModel(config, 3, counting.get());
  if (!model.ok()) return -1;
  std::vector<float> parameters((*model)->layout().size());
  std::vector<float> gradients(parameters.size());
  kernels::StepState state;
  if (!(*model)
           ->Forward(SomeBatch(config), parameters.data(), true, &state)
           .ok() ||
      !(*model)->Backward(parameters.data(), gradients.data()).ok()) {
    return -1;
  }
  return costs.total.multiply_adds;
}

ModelConfig Halved(ModelConfig config) {
  for (auto& [key, f] : config.layers_by_name) {
    for (int64_t& rank : f.ranks) rank = (rank + 1) / 2;
  }
  return config;
}

TEST(PathsTest, FewerRanksCostLess) {
  for (const ModelConfig& whole : AllModels()) {
    const double before = MultiplyAdds(whole);
    const double after = MultiplyAdds(Halved(whole));
    ASSERT_GT(after, 0);
    EXPECT_LT(after, 0.75 * before);
  }
}

TEST(PathsTest, PrunedLayersDoNothing) {
  for (ModelConfig config : Encoders()) {
    double before = MultiplyAdds(config);
    const TestModel whole(config, 3);
    int64_t activations = whole.model->activation_bytes();
    for (const FactorisableLayer& layer : FactorisableLayers(config)) {
      for (int64_t& rank : config.layers_by_name.at(layer.key).ranks) rank = 0;
      const double now = MultiplyAdds(config);
      ASSERT_GE(now, 0);
      EXPECT_LT(now, before) << layer.key;
      before = now;
      TestModel rest(config, 3);
      EXPECT_LE(rest.model->activation_bytes(), activations) << layer.key;
      activations = rest.model->activation_bytes();
      EXPECT_TRUE(std::isfinite(rest.Gradient(SomeBatch(config))));
    }
  }
}

}  // namespace
}  // namespace comera::trainer
