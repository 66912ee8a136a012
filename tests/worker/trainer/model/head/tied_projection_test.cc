// The projection by a table that is computed block by block.
#include "worker/trainer/model/head/tied_projection.h"

#include <memory>
#include <random>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/linear/folded_cores.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

constexpr int64_t kRows = 3;

std::vector<float> Random(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.5f);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

struct Results {
  std::vector<float> y, grad_x, gradients;
};

// Forward and Backward of random rows. `crowded`: before each, another layer
// folds other cores.
Results ForwardAndBackward(const ModelConfig& config, bool crowded) {
  const ModelLayout layout = MakeModelLayout(config);
  const auto backend = kernels::CreateCpuBackend({1, 0});
  StepMemory memory(backend.get(), /*stages=*/1);
  Plan plan;
  plan.backend = backend.get();
  plan.memory = &memory;
  plan.config = &config;
  plan.layout = &layout;
  plan = plan.AtStage(0);
  TiedProjection projection(plan);
  FoldedCores other(plan, "encoder.embedding.word", "other",
                    FoldedCores::Memory::kContraction);
  EXPECT_OK(memory.Commit());

  Results results;
  results.y.resize(kRows * config.vocabulary);
  results.grad_x.resize(kRows * config.hidden);
  results.gradients.resize(layout.parameters.size());
  const std::vector<float> parameters = Random(layout.parameters.size(), 1);
  const std::vector<float> others = Random(layout.parameters.size(), 2);
  const std::vector<float> x = Random(kRows * config.hidden, 3);
  const std::vector<float> grad_y = Random(kRows * config.vocabulary, 4);
  Step step, other_step;
  step.parameters = parameters.data();
  step.gradients = results.gradients.data();
  other_step.parameters = others.data();
  const ConstMatrix in(x.data(), kRows, config.hidden);
  EXPECT_OK(projection.SetUp());
  EXPECT_OK(projection.Contract(step));
  if (crowded) {
    EXPECT_OK(other.Fold(other_step));
  }
  EXPECT_OK(projection.Forward(
      step, 0, in, Matrix(results.y.data(), kRows, config.vocabulary)));
  if (crowded) {
    EXPECT_OK(other.Fold(other_step));
  }
  EXPECT_OK(projection.Backward(
      step, 0, in, ConstMatrix(grad_y.data(), kRows, config.vocabulary),
      Matrix(results.grad_x.data(), kRows, config.hidden), false));
  EXPECT_OK(projection.FinishBackward(step));
  return results;
}

TEST(TiedProjectionTest, OtherLayersMayFoldTheirCoresBetweenItsCalls) {
  const ModelConfig three_cores = LargeVocabularyConfig(/*expanded=*/false);
  ModelConfig two_cores = three_cores;
  two_cores.layers_by_name["embedding"] = {{96, 96}, {32, 32}, {4}};
  for (const ModelConfig& config : {three_cores, two_cores}) {
    const Results alone = ForwardAndBackward(config, false);
    const Results crowded = ForwardAndBackward(config, true);
    EXPECT_NE(alone.y, std::vector<float>(alone.y.size()));
    EXPECT_EQ(alone.y, crowded.y);
    EXPECT_EQ(alone.grad_x, crowded.grad_x);
    EXPECT_EQ(alone.gradients, crowded.gradients);
  }
}

}  // namespace
}  // namespace comera::trainer
