// Models in which the rows of some tokens are dense beside a TTM table.
#include <algorithm>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/model/weights/initial_weights.h"

namespace comera::trainer {
namespace {

using Ids = std::vector<int32_t>;

// A masked language model whose tokens `dense` have dense rows.
ModelConfig Config(bool tied, const Ids& dense) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.layers_by_name["embedding"].dense_tokens = dense;
  config.tie_output = tied;
  if (tied) config.layers_by_name.erase("output");
  return config;
}

const Parameter& At(const TestModel& m, const std::string& name) {
  const ParameterLayout& layout = m.model->layout();
  EXPECT_GE(layout.Find(name), 0) << name;
  return layout[layout.Find(name)];
}

constexpr char kRows[] = "encoder.embedding.word.dense_rows";

TEST(DenseTokensTest, GradientsAgreeWithFiniteDifferences) {
  for (const bool tied : {false, true}) {
    TestModel m(Config(tied, {0, 3, 4, 29}), 4);
    EnlargeWeights(m);
    ExpectGradientsAreDerivatives(m, RandomBatch(m.config, 4, 7, 1, 1));
  }
}

// A table that is expanded, and one whose rows are computed in blocks of 4,096,
// the last one not full.
TEST(DenseTokensTest, ALargeVocabularyAsAWholeAndInBlocks) {
  for (const bool expanded : {true, false}) {
    ModelConfig config = LargeVocabularyConfig(expanded);
    const Ids tokens = {5, 4095, 4096, 8999};
    config.layers_by_name["embedding"].dense_tokens = tokens;
    TestModel m(config, 4);
    if (expanded) EnlargeWeights(m);
    Batch batch = RandomBatch(m.config, 4, 7, 1, 1);
    batch.ids[0] = 4096;
    batch.labels[0] = 8999;
    ExpectGradientsAreDerivatives(m, batch);
    const Parameter& rows = At(m, kRows);
    for (int64_t token = 0; token < 4; ++token) {
      const auto row =
          m.gradients.begin() + rows.offset + token * config.hidden;
      EXPECT_TRUE(std::any_of(row, row + config.hidden, [](float g) {
        return g != 0;
      })) << tokens[token];
    }
  }
}

TEST(DenseTokensTest, BatchesOfDenseTokensOnlyAndOfOthersOnly) {
  for (const bool pad : {false, true}) {
    ModelConfig config = Config(true, {2, 7});
    config.pad_batches = pad;
    TestModel m(config, 4);
    EnlargeWeights(m);
    Batch batch = RandomBatch(m.config, 4, 7, 0, 1);
    std::fill(batch.ids.begin(), batch.ids.end(), 7);
    ExpectGradientsAreDerivatives(m, batch);
    std::fill(batch.ids.begin(), batch.ids.end(), 8);
    ExpectGradientsAreDerivatives(m, batch);
  }
}

TEST(DenseTokensTest, ATokenOutsideTheVocabularyIsRefused) {
  TestModel m(Config(true, {2, 7}), 1);
  Batch batch = RandomBatch(m.config, 1, 2, 0, 1);
  for (const int32_t id : {-1, 30}) {
    batch.ids[1] = id;
    EXPECT_THAT(m.model->SetBatch(batch, true, &m.state),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::HasSubstr("outside the vocabulary")));
  }
}

TEST(DenseTokensTest, RemainOfAPrunedTable) {
  ModelConfig config = Config(true, {2, 7});
  config.layers_by_name["embedding"].ranks = {0, 0};
  TestModel m(config, 2);
  EnlargeWeights(m);
  ExpectGradientsAreDerivatives(m, RandomBatch(config, 2, 5, 1, 1));
}

// From a dense model, the rows are taken as they are, and the cores approximate
// the others alone: exactly, where those are of a low rank.
TEST(DenseTokensTest, StartFromADenseModel) {
  const std::string folder = testing::TempDir() + "/dense_tokens_start";
  ModelConfig whole = SmallConfig(v1::ModelSpec::MASKED_LM, true);
  whole.tie_output = true;
  whole.layers_by_name.erase("output");
  TestModel dense(whole, 2, /*seed=*/3);
  const Parameter& table = At(dense, "encoder.embedding.word.weight");
  // All rows but two are multiples of one; in the cores, those two are 0.
  for (int64_t id = 0; id < whole.vocabulary; ++id) {
    if (id == 2 || id == 7) continue;
    for (int64_t i = 0; i < whole.hidden; ++i) {
      dense.parameters[table.offset + id * whole.hidden + i] =
          0.3f * static_cast<float>(id % 5 - 2) *
          dense.parameters[table.offset + 2 * whole.hidden + i];
    }
  }
  ASSERT_OK(ExportModel(whole, dense.parameters.data(), {}, folder));
  ModelConfig config = whole;
  config.layers_by_name["embedding"] = {{6, 5}, {1, 12}, {1}};
  config.layers_by_name["embedding"].dense_tokens = {2, 7};
  TestModel m(config, 2, /*seed=*/4);
  ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report,
                       LoadInitialWeights(folder + "/" + kModelFile, config,
                                          m.parameters.data(), nullptr));
  ASSERT_EQ(report.errors.size(), 1);
  EXPECT_LT(report.errors[0].relative_error, 1e-5);
  const Batch batch = RandomBatch(config, 2, 5, 1, 1);
  ExpectNear(m.Logits(batch), dense.Logits(batch), 1e-5);
}

TEST(DenseTokensTest, AreExportedAndRead) {
  const std::string folder = testing::TempDir() + "/dense_tokens_export";
  TestModel m(Config(true, {0, 3, 29}), 2);
  m.SpreadRanks();
  ASSERT_OK(ExportModel(m.config, m.parameters.data(), {}, folder));
  ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder));
  EXPECT_EQ(imported.config.layers_by_name.at("embedding").dense_tokens,
            (Ids{0, 3, 29}));
  TestModel after(imported.config, 2);
  after.parameters = imported.parameters;
  const Batch batch = RandomBatch(m.config, 2, 5, 1, 1);
  ExpectNear(after.Logits(batch), m.Logits(batch), 1e-5);
}

TEST(DenseTokensTest, CountAsParameters) {
  const ModelConfig with = Config(false, {0, 3, 29});
  const ModelConfig without = Config(false, {});
  EXPECT_EQ(FixedSize(MakeModelLayout(with).parameters) -
                FixedSize(MakeModelLayout(without).parameters),
            3 * with.hidden);
  EXPECT_EQ(DenseParameterCount(with), DenseParameterCount(without));
}

}  // namespace
}  // namespace comera::trainer
