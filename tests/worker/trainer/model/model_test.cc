// Tests transformers as a whole: gradients, dropout, states.
#include "worker/trainer/model/interface/model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/compaction.h"

namespace comera::trainer {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr auto kClassifier = v1::ModelSpec::ENCODER_CLASSIFIER;
constexpr auto kMaskedLm = v1::ModelSpec::MASKED_LM;

struct Family {
  std::string name;
  ModelConfig config;
};

class ModelTest : public ::testing::TestWithParam<Family> {
 protected:
  ModelConfig Config() const { return GetParam().config; }
  bool classifier() const { return Config().family == kClassifier; }
};

TEST_P(ModelTest, GradientsAgreeWithFiniteDifferences) {
  TestModel m(Config(), 4);
  EnlargeWeights(m);
  EXPECT_GT(ExpectGradientsAreDerivatives(m, RandomBatch(m.config, 4, 7, 1, 1)),
            15);
}

TEST_P(ModelTest, HalvesAddUpToTheWhole) {
  ModelConfig config = Config();
  config.dropout = 0.2f;  // masks depend on the place in the whole batch
  TestModel whole(config, 4), halves(config, 2);
  const Batch batch = RandomBatch(config, 4, 9, 1, 2);
  const double loss = whole.Gradient(batch);
  const double sum =
      halves.Gradient(Part(batch, 0, 2)) + halves.Gradient(Part(batch, 2, 2));
  EXPECT_NEAR(sum, loss, 1e-5 * loss);
  ExpectNear(halves.gradients, whole.gradients, 1e-5);
}

TEST_P(ModelTest, SmallerBatchesThanPlannedAndOddSizesRun) {
  TestModel large(Config(), 7), exact(Config(), 3);
  const Batch batch = RandomBatch(exact.config, 3, 4, 0, 3);
  large.Gradient(RandomBatch(exact.config, 7, 20, 0, 9));
  std::fill(large.gradients.begin(), large.gradients.end(), 0.0f);
  EXPECT_EQ(large.Gradient(batch), exact.Gradient(batch));
  ExpectNear(large.gradients, exact.gradients, 1e-6);
}

TEST_P(ModelTest, DropoutIsAFunctionOfSeedAndStep) {
  ModelConfig config = Config();
  config.dropout = 0.3f;
  TestModel m(config, 2);
  const Batch batch = RandomBatch(config, 2, 4, 0, 4);
  const double first = m.Gradient(batch);
  const std::vector<float> gradients = m.gradients;
  std::fill(m.gradients.begin(), m.gradients.end(), 0.0f);
  EXPECT_EQ(m.Gradient(batch), first);
  EXPECT_EQ(m.gradients, gradients);
  m.state.step += 1;
  EXPECT_NE(m.Loss(batch, true), first);
  m.state.step -= 1;
  m.state.seed += 1;
  EXPECT_NE(m.Loss(batch, true), first);
  // Evaluation has no dropout.
  const double evaluated = m.Loss(batch, false);
  m.state.step += 1;
  EXPECT_EQ(m.Loss(batch, false), evaluated);
}

TEST_P(ModelTest, PaddingDoesNotMatter) {
  TestModel m(Config(), 3);
  Batch batch = RandomBatch(m.config, 3, 3, 2, 5);
  // Labels at a token of each sample that is not padding, and that in a decoder
  // sees the one before it.
  for (size_t i = 0; i < batch.label_rows.size(); ++i) {
    batch.label_rows[i] =
        static_cast<int32_t>(i * batch.length + (classifier() ? 0 : 2));
  }
  const double loss = m.Loss(batch);
  Batch other = batch;
  for (size_t i = 0; i < other.ids.size(); ++i) {
    if (other.mask[i] == 0) other.ids[i] = (other.ids[i] + 7) % 30;
  }
  EXPECT_NEAR(m.Loss(other), loss, 1e-6 * loss);
  other.ids[1] = (other.ids[1] + 7) % 30;
  EXPECT_GT(std::fabs(m.Loss(other) - loss), 1e-6 * loss);
}

// With dropout: a sample has the same numbers wherever the batch is cut, and
// the packing of the samples around it does not matter.
TEST_P(ModelTest, SamplesOfAnyLengthsAddUp) {
  ModelConfig config = Config();
  config.dropout = 0.2f;
  TestModel whole(config, 6), one(config, 1);
  Batch batch = RandomBatch(config, 6, 0, 0, 12);
  SetLengths({3, 5, 1, 4, 5, 2}, &batch);
  if (!classifier()) SpreadLabels(config, 13, 12, &batch);
  const double loss = whole.Gradient(batch);
  double sum = 0;
  for (int64_t i = 0; i < 6; ++i) sum += one.Gradient(Part(batch, i, 1));
  EXPECT_NEAR(sum, loss, 1e-5 * loss);
  ExpectNear(one.gradients, whole.gradients, 1e-5);
}

// Padding more is no change, with dropout: a model planned for longer samples.
TEST_P(ModelTest, LengthsMatterAndPaddingDoesNot) {
  ModelConfig config = Config();
  config.dropout = 0.2f;
  ModelConfig longer = config;
  longer.length = longer.max_positions;
  ASSERT_GT(longer.length, config.length);
  TestModel m(config, 3), padded(longer, 3);
  Batch batch = RandomBatch(config, 3, 0, 0, 13);
  SetLengths({2, 5, 4}, &batch);
  if (!classifier()) SpreadLabels(config, 7, 13, &batch);
  Batch wide = batch;
  wide.length = longer.length;
  wide.ids.clear();
  wide.segments.clear();
  wide.mask.clear();
  for (int64_t i = 0; i < 3 * longer.length; ++i) {
    const int64_t j = i % longer.length;
    const int64_t from = i / longer.length * config.length + j;
    const bool inside = j < config.length;
    wide.ids.push_back(inside ? batch.ids[from] : 0);
    wide.segments.push_back(inside ? batch.segments[from] : 0);
    wide.mask.push_back(inside ? batch.mask[from] : 0.0f);
  }
  for (int32_t& row : wide.label_rows) {
    row = static_cast<int32_t>(row / config.length * longer.length +
                               row % config.length);
  }
  const double loss = m.Gradient(batch);
  EXPECT_NEAR(padded.Gradient(wide), loss, 1e-6 * loss);
  ExpectNear(padded.gradients, m.gradients, 1e-6);
  SetLengths({3, 5, 4}, &batch);
  EXPECT_GT(std::fabs(m.Loss(batch) - loss), 1e-6 * loss);
}

TEST_P(ModelTest, LogitsExplainTheLoss) {
  TestModel m(Config(), 3);
  const Batch batch = RandomBatch(m.config, 3, 6, 0, 6);
  const std::vector<float> logits = m.Logits(batch);
  const int64_t columns = classifier() ? m.config.classes : m.config.vocabulary;
  ASSERT_EQ(logits.size(), batch.labels.size() * columns);
  double loss = 0, correct = 0;
  for (size_t r = 0; r < batch.labels.size(); ++r) {
    const float* row = logits.data() + r * columns;
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(double{row[c]});
    loss += std::log(sum) - row[batch.labels[r]];
    correct += std::max_element(row, row + columns) - row == batch.labels[r];
  }
  EXPECT_NEAR(m.Loss(batch), loss, 1e-5 * loss);
  ASSERT_OK_AND_ASSIGN(const LossTotals totals, m.model->ReadLoss());
  EXPECT_EQ(totals.labels, batch.labels.size());
  EXPECT_EQ(totals.correct, correct);
}

ModelConfig WithSilu(ModelConfig config) {
  SetInnerSilu(&config);
  return config;
}

INSTANTIATE_TEST_SUITE_P(
    Families, ModelTest,
    ::testing::Values(
        Family{"Classifier", SmallConfig(kClassifier)},
        Family{"MaskedLm", SmallConfig(kMaskedLm)},
        Family{"Llama", SmallDecoder(v1::ModelSpec::LLAMA)},
        Family{"Gpt2", SmallDecoder(v1::ModelSpec::GPT2)},
        Family{"SiluClassifier", WithSilu(SmallConfig(kClassifier))},
        Family{"SiluMaskedLm", WithSilu(SmallConfig(kMaskedLm))},
        Family{"SiluLlama", WithSilu(SmallDecoder(v1::ModelSpec::LLAMA))},
        Family{"DenseClassifier", SmallConfig(kClassifier, true)},
        Family{"DenseMaskedLm", SmallConfig(kMaskedLm, true)},
        Family{"DenseLlama", SmallDecoder(v1::ModelSpec::LLAMA, true)},
        Family{"DenseGpt2", SmallDecoder(v1::ModelSpec::GPT2, true)}),
    [](const auto& info) { return info.param.name; });

std::vector<ModelConfig> LanguageModels() {
  return {SmallConfig(kMaskedLm), SmallDecoder(v1::ModelSpec::LLAMA),
          SmallDecoder(v1::ModelSpec::GPT2, /*dense=*/true)};
}

// More label rows than fit one chunk of logits and more rows than one block of
// the hidden layer: the same as one sample at a time.
TEST(LanguageModelTest, RowsInSeveralBlocks) {
  for (ModelConfig config : LanguageModels()) {
    config.length = config.max_positions = 120;
    TestModel m(config, 10), parts(config, 1);
    const Batch batch = RandomBatch(config, 10, 1100, 0, 7);
    const double loss = m.Gradient(batch);
    double sum = 0;
    for (int64_t i = 0; i < 10; ++i) sum += parts.Gradient(Part(batch, i, 1));
    EXPECT_NEAR(loss, sum, 1e-5 * sum);
    ExpectNear(m.gradients, parts.gradients, 1e-5);
    EXPECT_EQ(m.Logits(batch).size(), 1100u * 30);
  }
}

// With several chunks Forward leaves the loss to Backward, unless it is read in
// between.
TEST(LanguageModelTest, TheLossMayBeReadBeforeAndAfterBackward) {
  for (ModelConfig config : LanguageModels()) {
    config.length = config.max_positions = 120;
    TestModel m(config, 10);
    const Batch batch = RandomBatch(config, 10, 1100, 0, 7);
    const double before = m.Gradient(batch);
    const std::vector<float> gradients = m.gradients;
    std::fill(m.gradients.begin(), m.gradients.end(), 0);
    ASSERT_OK(m.model->Forward(batch, m.parameters.data(), true, &m.state));
    ASSERT_OK(m.model->Backward(m.parameters.data(), m.gradients.data()));
    for (int reading = 0; reading < 2; ++reading) {
      ASSERT_OK_AND_ASSIGN(const LossTotals after, m.model->ReadLoss());
      EXPECT_NEAR(after.loss_sum, before, 1e-5 * before);
      EXPECT_EQ(after.labels, 1100);
    }
    ExpectNear(m.gradients, gradients, 1e-6);
  }
}

TEST(LanguageModelTest, NoLabelsMeansNoLossAndNoGradient) {
  for (const ModelConfig& config : LanguageModels()) {
    TestModel m(config, 2);
    EXPECT_EQ(m.Gradient(RandomBatch(m.config, 2, 0, 0, 8)), 0);
    EXPECT_THAT(m.gradients, Each(0));
    EXPECT_TRUE(m.Logits(RandomBatch(m.config, 2, 0, 0, 8)).empty());
  }
}

TEST(ModelStatusTest, RefusesWhatItWasNotPlannedFor) {
  TestModel m(SmallConfig(kMaskedLm), 2);
  const Batch good = RandomBatch(m.config, 2, 3, 0, 1);
  const auto status = [&](auto change) {
    Batch batch = good;
    change(batch);
    return m.model->Forward(batch, m.parameters.data(), true, &m.state);
  };
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_OK(status([](Batch&) {}));
  EXPECT_THAT(status([](Batch& b) { b.size = 3; }), refused("planned"));
  EXPECT_THAT(status([](Batch& b) { b.size = 0; }), refused("planned"));
  EXPECT_THAT(status([](Batch& b) { b.length = 4; }), refused("planned"));
  EXPECT_THAT(status([](Batch& b) { b.ids.pop_back(); }), refused("ids"));
  EXPECT_THAT(status([](Batch& b) { b.mask.pop_back(); }), refused("mask"));
  EXPECT_THAT(status([](Batch& b) { b.mask[7] = 0; }), refused("sample 1"));
  EXPECT_THAT(status([](Batch& b) { b.mask[4] = 0.5f; }), refused("mask"));
  EXPECT_THAT(status([](Batch& b) {
                b.mask[9] = 0;
                b.label_rows.back() = 9;
              }),
              refused("padding"));
  EXPECT_THAT(status([](Batch& b) { b.ids[0] = 30; }), refused("vocabulary"));
  EXPECT_THAT(status([](Batch& b) { b.ids[0] = -1; }), refused("vocabulary"));
  EXPECT_THAT(status([](Batch& b) { b.segments[0] = 2; }), refused("segment"));
  EXPECT_THAT(status([](Batch& b) { b.labels[0] = 30; }), refused("label"));
  EXPECT_THAT(status([](Batch& b) { b.label_rows[0] = 10; }),
              refused("label row"));
  EXPECT_THAT(status([](Batch& b) { b.label_rows[1] = b.label_rows[0]; }),
              refused("label row"));
  EXPECT_THAT(status([](Batch& b) { b.labels.pop_back(); }),
              refused("label rows"));
}

TEST(ModelStatusTest, BackwardNeedsAForwardInTraining) {
  TestModel m(SmallConfig(kMaskedLm), 2);
  const auto backward = [&] {
    return m.model->Backward(m.parameters.data(), m.gradients.data());
  };
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(backward(), refused);
  EXPECT_THAT(m.model->ReadLoss(), refused);
  EXPECT_THAT(m.model->ReadLogits(), refused);
  const Batch batch = RandomBatch(m.config, 2, 3, 0, 1);
  m.Loss(batch, false);
  EXPECT_THAT(backward(), refused);
  m.Loss(batch, true);
  EXPECT_OK(backward());
  EXPECT_THAT(backward(), refused);
}

TEST(ModelStatusTest, CreateNamesWhatIsImpossible) {
  const auto backend = kernels::CreateCpuBackend({1, 0});
  const auto create = [&](auto change) {
    ModelConfig config = SmallConfig(kMaskedLm);
    change(config);
    return CreateModel(config, 2, backend.get()).status();
  };
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(create([](ModelConfig& c) { c.heads = 5; }),
              refused("model.hidden"));
  EXPECT_THAT(create([](ModelConfig& c) { c.length = 7; }),
              refused("max_length"));
  EXPECT_THAT(create([](ModelConfig& c) { c.layers_by_name.erase("head"); }),
              refused("head"));
  EXPECT_THAT(create([](ModelConfig& c) {
                c.layers_by_name["head"].input_modes[0] = 5;
              }),
              refused("head: product"));
  EXPECT_THAT(
      create([](ModelConfig& c) { c.layers_by_name["head"].ranks.pop_back(); }),
      refused("head: 2 ranks"));
  EXPECT_THAT(
      create([](ModelConfig& c) { c.layers_by_name["head"].ranks[0] = 0; }),
      refused("all must be"));
  EXPECT_THAT(
      create([](ModelConfig& c) { c.layers_by_name["layers.9.query"]; }),
      refused("does not have"));
  EXPECT_THAT(CreateModel(SmallConfig(kMaskedLm), 0, backend.get()),
              refused("batch_size"));
  const auto small = kernels::CreateCpuBackend({1, 100000});
  EXPECT_THAT(CreateModel(SmallConfig(kMaskedLm), 50, small.get()),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace comera::trainer
