// The forms of the other methods through configuration, layout and export.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/initialise.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using Compression = v1::CompressionSpec;
using Kind = LowRank::Kind;
using ::testing::HasSubstr;

// Hidden 48, ffn 192, vocabulary 100.
v1::JobSpec SpecOf(Compression::Method method) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::MASKED_LM);
  model.set_layers(1);
  model.set_hidden(48);
  model.set_ffn(192);
  model.set_heads(4);
  spec.mutable_data()->set_max_length(8);
  Compression& compression = *spec.mutable_compression();
  compression.set_method(method);
  compression.mutable_galore()->set_rank(16);
  compression.mutable_lora()->set_rank(8);
  compression.mutable_lora()->set_alpha(4);
  compression.mutable_lte()->set_rank(2);
  compression.mutable_lte()->set_heads(4);
  compression.mutable_lte()->set_scale(3);
  compression.mutable_cola()->set_rank(12);
  return spec;
}

TEST(LowRankConfigTest, EncoderLayersTakeTheFormAndHeadsDoNot) {
  for (auto [method, kind] : {std::pair{Compression::LORA, Kind::kLora},
                              std::pair{Compression::LTE, Kind::kLte},
                              std::pair{Compression::COLA, Kind::kCola}}) {
    v1::JobSpec spec = SpecOf(method);
    spec.mutable_compression()->mutable_ffn_up()->set_dense(true);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(spec, 100));
    for (const FactorisableLayer& layer : FactorisableLayers(config)) {
      const bool taken =
          !layer.embedding && !layer.in_head && layer.layer_class != "ffn_up";
      EXPECT_EQ(config.layers_by_name.at(layer.key).low_rank.kind,
                taken ? kind : Kind::kNone)
          << layer.key;
    }
  }
}

TEST(LowRankConfigTest, SettingsAreTheMethods) {
  const auto form = [](Compression::Method method) {
    return MakeModelConfig(SpecOf(method), 100)
        ->layers_by_name.at("layers.0.query")
        .low_rank;
  };
  EXPECT_EQ(form(Compression::LORA).rank, 8);
  EXPECT_EQ(form(Compression::LORA).scale, 0.5);  // alpha / rank
  EXPECT_EQ(form(Compression::LTE).heads, 4);
  EXPECT_EQ(form(Compression::LTE).scale, 3);
  EXPECT_EQ(form(Compression::COLA).rank, 12);
}

TEST(LowRankConfigTest, GaloreProjectsWhatIsWiderThanTheRank) {
  v1::JobSpec spec = SpecOf(Compression::GALORE);
  ASSERT_OK_AND_ASSIGN(ModelConfig config, MakeModelConfig(spec, 100));
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    EXPECT_EQ(config.layers_by_name.at(layer.key).low_rank.kind,
              layer.embedding ? Kind::kNone : Kind::kGalore)
        << layer.key;
  }
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  EXPECT_EQ(layout.trained_size(), layout.size());
  const Parameter& up = layout[layout.Find("encoder.layers.0.ffn.up.weight")];
  EXPECT_EQ(up.moment_size, 192 * 16);
  EXPECT_EQ(up.projector_size, 48 * 16);
  EXPECT_LT(2 * layout.moments_size() + layout.projectors_size(),
            2 * layout.size());

  spec.mutable_compression()->mutable_galore()->set_rank(48);
  ASSERT_OK_AND_ASSIGN(config, MakeModelConfig(spec, 100));
  EXPECT_EQ(MakeModelLayout(config).parameters.projectors_size(), 0);
}

TEST(LowRankConfigTest, FrozenWeightsComeLastAndHaveNoState) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       MakeModelConfig(SpecOf(Compression::LTE), 100));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  int64_t frozen = 0;
  for (const Parameter& p : layout.parameters()) {
    if (p.kind == ParameterKind::kFrozen) {
      EXPECT_GE(p.offset, layout.trained_size()) << p.name;
      frozen += p.size;
    } else {
      EXPECT_LT(p.offset, layout.trained_size()) << p.name;
      EXPECT_EQ(p.moment_offset, p.offset) << p.name;
    }
  }
  // The weights, and the factors at the last merge.
  const int64_t weights = 4 * 48 * 48 + 2 * 48 * 192;
  const int64_t factors = 4 * 2 * (4 * 96 + 2 * 240);
  EXPECT_EQ(frozen, weights + factors);
  EXPECT_EQ(layout.trained_size() + frozen, layout.size());
  EXPECT_EQ(layout.moments_size(), layout.trained_size());
  // The model is dense in the end.
  EXPECT_EQ(FixedSize(layout), layout.size() - 2 * factors);
  EXPECT_EQ(FixedSize(layout), DenseParameterCount(config));
}

TEST(LowRankConfigTest, HeadsOfLteBeginOrthogonal) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       MakeModelConfig(SpecOf(Compression::LTE), 100));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  std::vector<float> parameters(layout.size());
  InitialiseParameters(config, 3, parameters.data());
  const Parameter& a = layout[layout.Find("encoder.layers.0.ffn.up.a")];
  ASSERT_EQ(a.shape, (std::vector<int64_t>{48, 8}));
  const float* values = parameters.data() + a.offset;
  const auto product = [&](int64_t j, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < 48; ++i) {
      sum += double{values[i * 8 + j]} * double{values[i * 8 + k]};
    }
    return sum;
  };
  for (int64_t head = 0; head < 4; ++head) {
    // Columns of length sqrt(inputs / rank).
    EXPECT_NEAR(product(2 * head, 2 * head), 48.0 / 2, 1e-4);
    EXPECT_NEAR(product(2 * head + 1, 2 * head + 1), 48.0 / 2, 1e-4);
    EXPECT_NEAR(product(2 * head, 2 * head + 1), 0, 1e-4);
  }
  EXPECT_GT(std::fabs(product(0, 2)), 1e-3);  // different heads
  for (const char* zero : {".b", ".previous_a", ".previous_b"}) {
    const Parameter& p =
        layout[layout.Find(std::string("encoder.layers.0.ffn.up") + zero)];
    for (int64_t i = 0; i < p.size; ++i) {
      ASSERT_EQ(parameters[p.offset + i], 0) << zero;
    }
  }
}

ModelConfig SmallConfigOf(LowRank form) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM, /*dense=*/true);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (layer.embedding || layer.in_head) continue;
    config.layers_by_name[layer.key].low_rank = form;
  }
  return config;
}

class LowRankExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/low_rank_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  std::string folder_;
};

TEST_F(LowRankExportTest, ImportComputesTheSame) {
  for (const LowRank& form :
       {LowRank{Kind::kLora, 3, 1, 0.5}, LowRank{Kind::kLte, 2, 4, 1.5},
        LowRank{Kind::kCola, 5, 1, 1}, LowRank{Kind::kGalore, 4, 1, 1}}) {
    TestModel before(SmallConfigOf(form), 2);
    for (float& p : before.parameters) {
      if (p == 0) p = 0.25f;  // B, so that it counts
    }
    ASSERT_OK(
        ExportModel(before.config, before.parameters.data(), {}, folder_));
    ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder_));
    // Once trained, weights of GaLore and LTE are like any others.
    const bool dense = form.kind == Kind::kGalore || form.kind == Kind::kLte;
    EXPECT_EQ(imported.config.layers_by_name.at("layers.0.query").low_rank.kind,
              dense ? Kind::kNone : form.kind);
    TestModel after(imported.config, 2);
    ASSERT_EQ(after.parameters.size(), imported.parameters.size());
    after.parameters = imported.parameters;
    const Batch batch = RandomBatch(before.config, 2, 4, 1, 1);
    const std::vector<float> want = before.Logits(batch);
    const std::vector<float> got = after.Logits(batch);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      // Merging rounds.
      const float tolerance =
          form.kind == Kind::kLte ? 1e-4f * (1 + std::fabs(want[i])) : 0;
      ASSERT_NEAR(got[i], want[i], tolerance) << i;
    }
  }
}

TEST_F(LowRankExportTest, ReadsModelsWithHeadsOfEarlierVersions) {
  TestModel before(SmallConfigOf({Kind::kLora, 2, 4, 1.5}), 2);
  for (float& p : before.parameters) {
    if (p == 0) p = 0.25f;
  }
  ASSERT_OK(ExportModel(before.config, before.parameters.data(), {}, folder_));
  const std::string path = folder_ + "/" + kModelConfigFile;
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(path));
  nlohmann::json json = nlohmann::json::parse(text);
  for (auto& [key, layer] : json["model"]["factorisation"].items()) {
    if (layer.contains("low_rank")) layer["low_rank"]["kind"] = "lte";
  }
  ASSERT_OK(WriteFileAtomically(path, json.dump()));
  ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder_));
  TestModel after(imported.config, 2);
  after.parameters = imported.parameters;
  const Batch batch = RandomBatch(before.config, 2, 4, 1, 1);
  EXPECT_EQ(after.Logits(batch), before.Logits(batch));
}

TEST_F(LowRankExportTest, RefusesConfigurationsThatCannotBe) {
  TestModel model(SmallConfigOf({Kind::kLora, 2, 4, 1.5}), 2);
  ASSERT_OK(ExportModel(model.config, model.parameters.data(), {}, folder_));
  const std::string path = folder_ + "/" + kModelConfigFile;
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(path));
  const auto expect_refused = [&](const char* field, nlohmann::json value) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["model"]["factorisation"]["layers.0.query"]["low_rank"][field] = value;
    ASSERT_OK(WriteFileAtomically(path, json.dump()));
    EXPECT_THAT(ImportModel(folder_), StatusIs(absl::StatusCode::kDataLoss,
                                               HasSubstr("layers.0.query")))
        << field << " " << value;
  };
  expect_refused("kind", "lowest");
  expect_refused("kind", 3);
  expect_refused("rank", 0);
  expect_refused("rank", 13);
  expect_refused("rank", "two");
  expect_refused("heads", 0);
  expect_refused("heads", int64_t{1} << 40);
  expect_refused("scale", -1);
  expect_refused("scale", 1e300);
  expect_refused("scale", "much");
}

TEST(LowRankConfigTest, CoresAndAnotherFormExcludeEachOther) {
  ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  config.layers_by_name["layers.0.query"].low_rank = {Kind::kLora, 2, 1, 1};
  EXPECT_THAT(CheckModelConfig(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layers.0.query")));
  config = SmallConfig(v1::ModelSpec::MASKED_LM, /*dense=*/true);
  config.layers_by_name["embedding"].low_rank = {Kind::kLora, 2, 1, 1};
  EXPECT_THAT(
      CheckModelConfig(config),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("embedding")));
}

}  // namespace
}  // namespace comera::trainer
