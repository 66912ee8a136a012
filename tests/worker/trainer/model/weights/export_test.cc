// Tests that an exported model computes what it did.
#include "worker/trainer/model/weights/export.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

class ExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/export_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }

  // A model with pruned entries and one pruned layer, exported to folder_.
  std::unique_ptr<TestModel> Export(v1::ModelSpec::Family family) {
    auto m = std::make_unique<TestModel>(SmallConfig(family), 2);
    m->SpreadRanks();
    for (const Parameter& p : m->model->layout().parameters()) {
      if (p.kind != ParameterKind::kRank) continue;
      m->parameters[p.offset] = 0;
      if (p.name == "encoder.layers.0.ffn.down.rank.0") {
        std::fill_n(m->parameters.begin() + p.offset, p.size, 0.0f);
      }
    }
    EXPECT_OK(ExportModel(m->config, m->parameters.data(),
                          {{"validation_loss", 1.5}}, folder_));
    return m;
  }

  std::string Path(const char* name) const { return folder_ + "/" + name; }

  // Changes config.json and expects the import to fail, naming `what`.
  template <typename Change>
  void ExpectRefused(Change change, const char* what) {
    auto text = ReadFile(Path(kModelConfigFile));
    ASSERT_OK(text);
    auto json = nlohmann::json::parse(*text);
    change(json);
    ASSERT_OK(WriteFileAtomically(Path(kModelConfigFile), json.dump()));
    EXPECT_THAT(ImportModel(folder_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(what)));
    ASSERT_OK(WriteFileAtomically(Path(kModelConfigFile), *text));
  }

  std::string folder_;
};

TEST_F(ExportTest, ImportComputesTheSame) {
  for (auto family :
       {v1::ModelSpec::ENCODER_CLASSIFIER, v1::ModelSpec::MASKED_LM}) {
    const auto before = Export(family);
    ASSERT_OK_AND_ASSIGN(const ImportedModel imported, ImportModel(folder_));
    EXPECT_EQ(imported.figures.at("validation_loss"), 1.5);
    TestModel after(imported.config, 2);
    ASSERT_EQ(after.parameters.size(), imported.parameters.size());
    after.parameters = imported.parameters;
    const Batch batch = RandomBatch(before->config, 2, 4, 1, 1);
    const std::vector<float> expected = before->Logits(batch);
    const std::vector<float> actual = after.Logits(batch);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::fabs(expected[i])));
    }
  }
}

TEST_F(ExportTest, FileHoldsTheCountedSize) {
  const auto m = Export(v1::ModelSpec::MASKED_LM);
  ASSERT_OK_AND_ASSIGN(const Safetensors file,
                       Safetensors::Read(Path(kModelFile)));
  int64_t values = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    values += static_cast<int64_t>(tensor.bytes.size() / sizeof(float));
    EXPECT_EQ(name.find(".rank."), std::string::npos);
  }
  const int64_t counted =
      CountedModelSize(m->model->layout(), m->model->tensorised_layers(),
                       m->parameters.data(), m->config.rank_threshold);
  EXPECT_EQ(values, counted);
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadFile(Path(kModelConfigFile)));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["size_parameters"], counted);
  // The bytes are those of the file, header included.
  EXPECT_EQ(json["size_bytes"],
            std::filesystem::file_size(Path(kModelFile)));
}

TEST_F(ExportTest, ValuesThatAreNotFiniteAreNotExported) {
  TestModel m(SmallConfig(v1::ModelSpec::MASKED_LM), 1);
  m.parameters[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ExportModel(m.config, m.parameters.data(), {}, folder_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("encoder.embedding.word.core.0")));
  EXPECT_FALSE(std::filesystem::exists(Path(kModelFile)));
}

TEST_F(ExportTest, MissingFilesAreNotFound) {
  EXPECT_THAT(ImportModel(folder_), StatusIs(absl::StatusCode::kNotFound));
  Export(v1::ModelSpec::MASKED_LM);
  std::filesystem::remove(Path(kModelFile));
  EXPECT_THAT(ImportModel(folder_), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ExportTest, HostileConfigurationsAreRefused) {
  using Json = nlohmann::json;
  Export(v1::ModelSpec::MASKED_LM);
  ExpectRefused([](Json& j) { j = Json::array(); }, "not a comera-model");
  ExpectRefused([](Json& j) { j["version"] = 4; }, "version");
  ExpectRefused([](Json& j) { j.erase("model"); }, "model");
  ExpectRefused([](Json& j) { j["model"]["family"] = 7; }, "family");
  ExpectRefused([](Json& j) { j["model"]["hidden"] = "12"; }, "hidden");
  ExpectRefused([](Json& j) { j["model"]["layers"] = -1; }, "layers");
  ExpectRefused([](Json& j) { j["model"]["layers"] = 1e18; }, "layers");
  ExpectRefused([](Json& j) { j["model"]["layers"] = 1000000000000; },
                "layers");
  ExpectRefused([](Json& j) { j["model"]["vocabulary"] = UINT64_MAX; },
                "vocabulary");
  ExpectRefused([](Json& j) { j["model"]["heads"] = 0; }, "heads");
  ExpectRefused([](Json& j) { j["model"]["rank_threshold"] = 2; },
                "rank_threshold");
  const auto head = [](Json& j) -> Json& {
    return j["model"]["factorisation"]["head"];
  };
  ExpectRefused([&](Json& j) { head(j) = 3; }, "factorisation");
  ExpectRefused([&](Json& j) { head(j)["ranks"] = {1, 2}; }, "head");
  ExpectRefused([&](Json& j) { head(j)["ranks"][0] = -3; }, "head");
  ExpectRefused([&](Json& j) { head(j)["ranks"][0] = 60000; }, "head");
  ExpectRefused(
      [&](Json& j) {
        head(j)["input_modes"] = {int64_t{1} << 62, int64_t{1} << 62};
      },
      "head");
  ExpectRefused([&](Json& j) { head(j)["input_modes"] = {0, 12}; }, "head");
}

TEST_F(ExportTest, HostileDenseTokensAreRefused) {
  using Json = nlohmann::json;
  Export(v1::ModelSpec::MASKED_LM);
  const auto refused = [&](const char* layer, const Json& tokens) {
    SCOPED_TRACE(tokens.dump());
    ExpectRefused(
        [&](Json& j) {
          j["model"]["factorisation"][layer]["dense_tokens"] = tokens;
        },
        layer);
  };
  Json all = Json::array();
  for (int id = 0; id < 30; ++id) all.push_back(id);
  refused("embedding", all);
  refused("embedding", 3);
  refused("embedding", {3, "4"});
  refused("embedding", {4, 3});
  refused("embedding", {4, 4});
  refused("embedding", {-1, 4});
  refused("embedding", {4, 30});
  refused("embedding", {4, int64_t{1} << 32});
  refused("head", {1, 2});
}

TEST_F(ExportTest, HostileTensorsAreRefused) {
  Export(v1::ModelSpec::MASKED_LM);
  ASSERT_OK_AND_ASSIGN(const std::string good, ReadFile(Path(kModelFile)));
  const auto refused = [&](const std::string& bytes) {
    EXPECT_OK(WriteFileAtomically(Path(kModelFile), bytes));
    EXPECT_THAT(ImportModel(folder_), StatusIs(absl::StatusCode::kDataLoss));
  };
  refused("");
  refused(good.substr(0, good.size() - 4));
  refused(good.substr(0, 100));
  ASSERT_OK_AND_ASSIGN(Safetensors file, Safetensors::Parse(good));
  const float one = 1, nan = std::numeric_limits<float>::quiet_NaN();
  Safetensors extra = file;
  ASSERT_OK(extra.AddFloat("surprise", {1}, &one, 1));
  refused(extra.Serialize());
  Safetensors other;
  for (const auto& [name, tensor] : file.tensors()) {
    std::vector<float> values(tensor.bytes.size() / 4, one);
    if (name == "head.norm.gamma") values[3] = nan;
    ASSERT_OK(other.AddFloat(name, tensor.shape, values.data(),
                             static_cast<int64_t>(values.size())));
  }
  refused(other.Serialize());
}

}  // namespace
}  // namespace comera::trainer
