// Masked language models whose projection is the word embedding's table.
#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/model/weights/initial_weights.h"

namespace comera::trainer {
namespace {

ModelConfig TiedConfig(bool dense) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, dense);
  config.tie_output = true;
  config.layers_by_name.erase("output");
  return config;
}

const Parameter& At(const TestModel& m, const std::string& name) {
  const ParameterLayout& layout = m.model->layout();
  EXPECT_GE(layout.Find(name), 0) << name;
  return layout[layout.Find(name)];
}

TEST(TiedOutputTest, DenseIsTheUntiedModelWithEqualTables) {
  TestModel tied(TiedConfig(true), 3);
  TestModel untied(SmallConfig(v1::ModelSpec::MASKED_LM, true), 3);
  for (const Parameter& p : untied.model->layout().parameters()) {
    if (p.name == "head.output.weight") continue;
    const Parameter& same = At(tied, p.name);
    ASSERT_EQ(same.shape, p.shape);
    std::copy_n(tied.parameters.begin() + same.offset, p.size,
                untied.parameters.begin() + p.offset);
  }
  const Parameter& words = At(untied, "encoder.embedding.word.weight");
  const Parameter& output = At(untied, "head.output.weight");
  for (int64_t v = 0; v < 30; ++v) {
    for (int64_t i = 0; i < 12; ++i) {
      untied.parameters[output.offset + i * 30 + v] =
          untied.parameters[words.offset + v * 12 + i];
    }
  }
  const Batch batch = RandomBatch(tied.config, 3, 8, 1, 1);
  const double loss = untied.Gradient(batch);
  EXPECT_NEAR(tied.Gradient(batch), loss, 1e-5 * loss);
  for (const Parameter& p : untied.model->layout().parameters()) {
    if (p.name == "head.output.weight") continue;
    const Parameter& same = At(tied, p.name);
    for (int64_t i = 0; i < p.size; ++i) {
      float expected = untied.gradients[p.offset + i];
      if (p.name == words.name) {
        expected += untied.gradients[output.offset + i % 12 * 30 + i / 12];
      }
      ASSERT_NEAR(tied.gradients[same.offset + i], expected, 1e-4) << p.name;
    }
  }
}

TEST(TiedOutputTest, TtmGradientsAgreeWithFiniteDifferences) {
  TestModel m(TiedConfig(false), 4);
  EnlargeWeights(m);
  ExpectGradientsAreDerivatives(m, RandomBatch(m.config, 4, 7, 1, 1));
}

TEST(TiedOutputTest, ALargeVocabularyAsAWholeAndInBlocks) {
  for (const bool expanded : {true, false}) {
    TestModel m(LargeVocabularyConfig(expanded), 4);
    if (expanded) EnlargeWeights(m);
    ExpectGradientsAreDerivatives(m, RandomBatch(m.config, 4, 7, 1, 1));
  }
}

// The table that tokens are looked up in is the one of the logits: a dense
// model's, as a TTM that holds it exactly.
TEST(TiedOutputTest, TtmComputesWhatTheDenseModelDoes) {
  const std::string folder = testing::TempDir() + "/tied_output";
  TestModel dense(TiedConfig(true), 2, /*seed=*/3);
  ASSERT_OK(ExportModel(dense.config, dense.parameters.data(), {}, folder));
  ModelConfig config = TiedConfig(true);
  config.layers_by_name["embedding"] = {{4, 2, 4}, {3, 2, 2}, {12, 8}};
  TestModel ttm(config, 2, /*seed=*/4);
  ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report,
                       LoadInitialWeights(folder + "/" + kModelFile, config,
                                          ttm.parameters.data(), nullptr));
  ASSERT_EQ(report.errors.size(), 1);
  const Batch batch = RandomBatch(config, 2, 5, 1, 1);
  const std::vector<float> expected = dense.Logits(batch);
  const std::vector<float> actual = ttm.Logits(batch);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-4);
  }
}

TEST(TiedOutputTest, APrunedTableLeavesTheBias) {
  ModelConfig config = TiedConfig(false);
  config.layers_by_name["embedding"].ranks = {0, 0};
  TestModel m(config, 2);
  const std::vector<float> logits = m.Logits(RandomBatch(config, 2, 5, 1, 1));
  const Parameter& bias = At(m, "head.output.bias");
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_EQ(logits[i], m.parameters[bias.offset + i % 30]);
  }
}

TEST(TiedOutputTest, TheTableCountsOnceAndIsExportedOnce) {
  const std::string folder = testing::TempDir() + "/tied_export";
  EXPECT_EQ(DenseParameterCount(SmallConfig(v1::ModelSpec::MASKED_LM)) -
                DenseParameterCount(TiedConfig(false)),
            30 * 12);
  TestModel m(TiedConfig(false), 2);
  m.SpreadRanks();
  ASSERT_OK(ExportModel(m.config, m.parameters.data(), {}, folder));
  ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder));
  EXPECT_TRUE(imported.config.tie_output);
  TestModel after(imported.config, 2);
  after.parameters = imported.parameters;
  const Batch batch = RandomBatch(m.config, 2, 5, 1, 1);
  const std::vector<float> expected = m.Logits(batch);
  const std::vector<float> actual = after.Logits(batch);
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::fabs(expected[i])));
  }
}

// Logits begin small: a sum over the width of table entries.
TEST(TiedOutputTest, StartsNearTheUniformLoss) {
  TestModel m(TiedConfig(false), 4);
  const Batch batch = RandomBatch(m.config, 4, 10, 0, 1);
  EXPECT_NEAR(m.Loss(batch) / 10, std::log(30.0), 0.3);
}

}  // namespace
}  // namespace comera::trainer
