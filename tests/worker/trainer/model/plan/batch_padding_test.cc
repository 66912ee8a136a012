// Tests the buckets, and that padding changes no result.
#include "worker/trainer/model/plan/batch_padding.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

TEST(BatchPaddingTest, BucketsAreFewAndNotFarApart) {
  constexpr int64_t kMost = 4000;
  EXPECT_EQ(PaddedCount(0, kMost), 0);
  EXPECT_EQ(PaddedCount(1, kMost), 64);
  EXPECT_EQ(PaddedCount(64, kMost), 64);
  EXPECT_EQ(PaddedCount(65, kMost), 128);
  EXPECT_EQ(PaddedCount(kMost, kMost), kMost);
  EXPECT_EQ(PaddedCount(7, 30), 30);
  int buckets = 0;
  for (int64_t count = 1; count <= kMost; ++count) {
    const int64_t padded = PaddedCount(count, kMost);
    ASSERT_GE(padded, count);
    ASSERT_LE(padded, std::max<int64_t>(count + 64, count * 9 / 8 + 64));
    ASSERT_TRUE(padded % 64 == 0 || padded == kMost);
    ASSERT_EQ(PaddedCount(padded, kMost), padded);
    buckets += padded == count ? 1 : 0;
  }
  EXPECT_LE(buckets, 30);
}

TEST(BatchPaddingTest, SequencesHoldThePadding) {
  constexpr int64_t kMost = 1000;
  for (const int64_t length : {1, 7, 128}) {
    for (int64_t count = 1; count <= kMost; ++count) {
      const int64_t padded = PaddedCount(count, kMost);
      const int64_t sequences = PaddingSequences(padded, kMost, length);
      ASSERT_GE(sequences * length, padded - count);
      ASSERT_LE(sequences, MaxPaddingSequences(kMost, length));
    }
  }
}

struct Case {
  std::string name;
  ModelConfig config;
};

// LTE in the feed-forward layers.
ModelConfig WithHeads(ModelConfig config) {
  for (auto& [key, form] : config.layers_by_name) {
    if (key.find("ffn") == std::string::npos) continue;
    form.low_rank = {LowRank::Kind::kLte, 2, 3, 1.5};
  }
  return config;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, ModelConfig config) {
    cases.push_back({name, std::move(config)});
  };
  for (const auto family :
       {v1::ModelSpec::ENCODER_CLASSIFIER, v1::ModelSpec::MASKED_LM}) {
    const std::string name =
        family == v1::ModelSpec::MASKED_LM ? "masked LM" : "classifier";
    add(name + ", dense", SmallConfig(family, true));
    for (const auto path :
         {kernels::TtPath::kPrefixSuffix, kernels::TtPath::kCoreByCore}) {
      ModelConfig config = SmallConfig(family);
      config.forced_path = path;
      add(name + ", cores", config);
    }
    add(name + ", LTE", WithHeads(SmallConfig(family, true)));
  }
  ModelConfig tied = SmallConfig(v1::ModelSpec::MASKED_LM);
  tied.tie_output = true;
  tied.layers_by_name.erase("output");
  add("masked LM, tied", tied);
  tied.layers_by_name["embedding"].dense_tokens = {0, 3, 29};
  add("masked LM, tied, dense tokens", tied);
  for (const auto architecture : {v1::ModelSpec::LLAMA, v1::ModelSpec::GPT2}) {
    const std::string name =
        architecture == v1::ModelSpec::LLAMA ? "LLaMA" : "GPT-2";
    add(name, SmallDecoder(architecture));
    add(name + ", dense", SmallDecoder(architecture, true));
    add(name + ", LTE", WithHeads(SmallDecoder(architecture, true)));
  }
  for (Case& each : cases) each.config.dropout = 0.1f;
  add("DLRM", SmallDlrm());
  add("DLRM, dense", SmallDlrm(true));
  return cases;
}

constexpr int64_t kBatch = 40;

bool IsDlrm(const ModelConfig& config) {
  return config.family == v1::ModelSpec::DLRM;
}

Batch SomeBatch(const ModelConfig& config, const std::vector<int64_t>& lengths,
                uint32_t seed) {
  if (IsDlrm(config)) return RandomClicks(config, kBatch, seed);
  Batch batch = RandomBatch(config, kBatch, 1, 0, seed);
  SetLengths(lengths, &batch);
  if (config.family != v1::ModelSpec::ENCODER_CLASSIFIER) {
    SpreadLabels(config, 25 + static_cast<int64_t>(seed), seed, &batch);
    return batch;
  }
  // Samples without a token have no label.
  batch.label_rows.clear();
  batch.labels.clear();
  for (int64_t i = 0; i < kBatch; ++i) {
    if (batch.mask[i * batch.length] == 0) continue;
    batch.label_rows.push_back(static_cast<int32_t>(i * batch.length));
    batch.labels.push_back(static_cast<int32_t>(i % config.classes));
  }
  return batch;
}

TEST(BatchPaddingTest, LossAndGradientsAreThoseOfTheBatch) {
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    ModelConfig padding = each.config;
    padding.pad_batches = true;
    TestModel usual(each.config, kBatch), filled(padding, kBatch);
    usual.SpreadRanks();
    filled.SpreadRanks();
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{5}, {3, 4, 2}, {5, 0, 1}, {1, 1, 1, 2}}) {
      const Batch batch = SomeBatch(each.config, lengths, 3);
      const double loss = usual.Gradient(batch);
      EXPECT_NEAR(filled.Gradient(batch), loss, 1e-6 * std::fabs(loss));
      double scale = 0;
      for (float g : usual.gradients) {
        scale = std::max(scale, std::fabs(double{g}));
      }
      for (size_t i = 0; i < usual.gradients.size(); ++i) {
        ASSERT_NEAR(filled.gradients[i], usual.gradients[i], 1e-6 * scale)
            << "at " << i;
      }
      // Evaluation pads nothing; logits are the batch's.
      EXPECT_EQ(filled.Logits(batch), usual.Logits(batch));
    }
  }
}

std::vector<int64_t> ShapeOf(TestModel* m, const Batch& batch) {
  EXPECT_OK(m->model->SetBatch(batch, true, &m->state));
  std::vector<int64_t> shape;
  m->model->AppendShape(&shape);
  return shape;
}

TEST(BatchPaddingTest, BatchesOfOneBucketHaveOneShape) {
  for (const Case& each : Cases()) {
    if (each.name.find("LTE") != std::string::npos) continue;  // runs differ
    SCOPED_TRACE(each.name);
    ModelConfig padding = each.config;
    padding.pad_batches = true;
    TestModel filled(padding, kBatch), usual(each.config, kBatch);
    // 134, 147 and 160 of 200 tokens.
    const Batch first = SomeBatch(padding, {3, 4, 3}, 1);
    const Batch second = SomeBatch(padding, {4, 3, 4}, 2);
    const Batch larger = SomeBatch(padding, {5}, 3);
    EXPECT_EQ(ShapeOf(&filled, first), ShapeOf(&filled, second));
    EXPECT_NE(ShapeOf(&usual, first), ShapeOf(&usual, second));
    if (IsDlrm(padding)) continue;
    EXPECT_NE(ShapeOf(&filled, first), ShapeOf(&filled, larger));
  }
}

TEST(BatchPaddingTest, ABatchWithoutTokensStaysOne) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.pad_batches = true;
  TestModel m(config, kBatch);
  Batch batch = RandomBatch(config, kBatch, 0, config.length, 1);
  EXPECT_EQ(m.Gradient(batch), 0);
}

}  // namespace
}  // namespace comera::trainer
