// Decoders through export, import, compaction and initial weights.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/compaction.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/model/weights/initial_weights.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr v1::ModelSpec::Architecture kArchitectures[] = {v1::ModelSpec::LLAMA,
                                                          v1::ModelSpec::GPT2};

class DecoderExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/decoder_export_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  std::string folder_;
};

// Some entries of every bond are below the threshold, and all of one bond.
TestModel WithDeadEntries(const ModelConfig& config) {
  TestModel m(config, 3);
  EnlargeWeights(m);
  for (const Parameter& p : m.model->layout().parameters()) {
    if (p.kind != ParameterKind::kRank) continue;
    m.parameters[p.offset] = 0;
    if (p.name == "decoder.layers.0.ffn.up.rank.1") {
      std::fill_n(m.parameters.begin() + p.offset, p.size, 0.0f);
    }
  }
  return m;
}

TEST_F(DecoderExportTest, ImportComputesTheSame) {
  for (const auto architecture : kArchitectures) {
    TestModel before = WithDeadEntries(SmallDecoder(architecture));
    ASSERT_OK(
        ExportModel(before.config, before.parameters.data(), {}, folder_));
    ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder_));
    EXPECT_EQ(imported.config.architecture, architecture);
    EXPECT_EQ(imported.config.kv_heads, before.config.kv_heads);
    TestModel after(imported.config, 3);
    after.parameters = imported.parameters;
    const Batch batch = RandomBatch(before.config, 3, 7, 1, 1);
    ExpectNear(after.Logits(batch), before.Logits(batch), 1e-5);

    ASSERT_OK_AND_ASSIGN(const Safetensors file,
                         Safetensors::Read(folder_ + "/" + kModelFile));
    int64_t values = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      values += static_cast<int64_t>(tensor.bytes.size() / sizeof(float));
    }
    EXPECT_EQ(values, CountedModelSize(before.model->layout(),
                                       before.model->tensorised_layers(),
                                       before.parameters.data(),
                                       before.config.rank_threshold));
  }
}

TEST_F(DecoderExportTest, CompactionLeavesTheFunction) {
  for (const auto architecture : kArchitectures) {
    TestModel before = WithDeadEntries(SmallDecoder(architecture));
    const CompactionPlan plan =
        PlanCompaction(before.config, before.parameters.data());
    EXPECT_TRUE(plan.changed);
    EXPECT_EQ(plan.config.layers_by_name.at("layers.0.ffn_up").ranks,
              std::vector<int64_t>(3, 0));
    TestModel after(plan.config, 3);
    CompactBuffer(plan, before.parameters.data(), after.parameters.data());
    const Batch batch = RandomBatch(before.config, 3, 7, 1, 1);
    EXPECT_NEAR(after.Gradient(batch), before.Gradient(batch), 1e-3);
    std::vector<float> gradients(after.gradients.size());
    CompactBuffer(plan, before.gradients.data(), gradients.data());
    ExpectNear(after.gradients, gradients, 1e-4);
  }
}

ModelConfig WithLowRank(LowRank form) {
  ModelConfig config = SmallDecoder(v1::ModelSpec::LLAMA, /*dense=*/true);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (layer.embedding || layer.in_head) continue;
    config.layers_by_name[layer.key].low_rank = form;
  }
  return config;
}

TEST_F(DecoderExportTest, LayersWithASiluInsideComputeTheSame) {
  ModelConfig config = SmallDecoder(v1::ModelSpec::LLAMA);
  SetInnerSilu(&config);
  TestModel before(config, 2);
  before.SpreadRanks();
  ASSERT_OK(ExportModel(before.config, before.parameters.data(), {}, folder_));
  ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder_));
  EXPECT_TRUE(imported.config.layers_by_name.at("layers.1.ffn_gate").silu);
  EXPECT_FALSE(imported.config.layers_by_name.at("output").silu);
  TestModel after(imported.config, 2);
  after.parameters = imported.parameters;
  const Batch batch = RandomBatch(config, 2, 5, 1, 1);
  ExpectNear(after.Logits(batch), before.Logits(batch), 1e-4);
}

TEST_F(DecoderExportTest, OtherMethodsComputeTheSame) {
  using Kind = LowRank::Kind;
  for (const LowRank& form :
       {LowRank{Kind::kLora, 3, 1, 0.5}, LowRank{Kind::kLte, 2, 4, 1.5},
        LowRank{Kind::kCola, 4, 1, 1}, LowRank{Kind::kCola, 4, 1, 1, true},
        LowRank{Kind::kGalore, 4, 1, 1}}) {
    ModelConfig config = WithLowRank(form);
    config.gate_silu = form.kind != Kind::kCola || form.linear;
    config.rope_theta = 500;
    TestModel before(config, 2);
    for (float& p : before.parameters) {
      if (p == 0) p = 0.25f;  // B, so that it counts
    }
    ASSERT_OK(
        ExportModel(before.config, before.parameters.data(), {}, folder_));
    ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder_));
    EXPECT_EQ(imported.config.gate_silu, config.gate_silu);
    EXPECT_EQ(imported.config.rope_theta, 500);
    EXPECT_EQ(
        imported.config.layers_by_name.at("layers.1.ffn_gate").low_rank.linear,
        form.linear);
    TestModel after(imported.config, 2);
    after.parameters = imported.parameters;
    const Batch batch = RandomBatch(config, 2, 5, 1, 1);
    ExpectNear(after.Logits(batch), before.Logits(batch), 1e-4);
  }
}

TEST_F(DecoderExportTest, ATrainedDenseModelMayBeginACompressedOne) {
  for (const auto architecture : kArchitectures) {
    TestModel dense(SmallDecoder(architecture, true), 2, /*seed=*/3);
    for (float& p : dense.parameters) {
      if (p == 0) p = 0.25f;  // biases
    }
    ASSERT_OK(ExportModel(dense.config, dense.parameters.data(), {}, folder_));
    ModelConfig config = SmallDecoder(architecture);
    // Ranks that hold everything.
    for (const FactorisableLayer& layer : FactorisableLayers(config)) {
      Factorisation& f = config.layers_by_name[layer.key];
      std::vector<int64_t> modes = f.input_modes;
      for (size_t i = 0; i < f.output_modes.size(); ++i) {
        if (layer.embedding) {
          modes[i] *= f.output_modes[i];
        } else {
          modes.push_back(f.output_modes[i]);
        }
      }
      int64_t left = 1, all = 1;
      for (int64_t mode : modes) all *= mode;
      for (size_t b = 0; b < f.ranks.size(); ++b) {
        left *= modes[b];
        f.ranks[b] = std::min(left, all / left);
      }
    }
    TestModel m(config, 2, /*seed=*/4);
    ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report,
                         LoadInitialWeights(folder_ + "/" + kModelFile, config,
                                            m.parameters.data(), nullptr));
    EXPECT_EQ(report.errors.size(), config.layers_by_name.size());
    const Batch batch = RandomBatch(config, 2, 5, 1, 1);
    ExpectNear(m.Logits(batch), dense.Logits(batch), 1e-4);
  }
}

TEST_F(DecoderExportTest, AnEncodersWeightsAreNotADecoders) {
  TestModel encoder(SmallConfig(v1::ModelSpec::MASKED_LM, true), 2);
  ASSERT_OK(
      ExportModel(encoder.config, encoder.parameters.data(), {}, folder_));
  TestModel m(SmallDecoder(v1::ModelSpec::LLAMA, true), 2);
  EXPECT_THAT(LoadInitialWeights(folder_ + "/" + kModelFile, m.config,
                                 m.parameters.data(), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("decoder.embedding.word.weight")));
}

}  // namespace
}  // namespace comera::trainer
