// Tests starting from exported and dense weights.
#include "worker/trainer/model/weights/initial_weights.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kClassifier = v1::ModelSpec::ENCODER_CLASSIFIER;
constexpr auto kMaskedLm = v1::ModelSpec::MASKED_LM;

struct NamedTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, NamedTensor>;

// SmallConfig with as much rank as every bond holds.
ModelConfig FullRankConfig(v1::ModelSpec::Family family) {
  ModelConfig config = SmallConfig(family);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    Factorisation& f = config.layers_by_name[layer.key];
    std::vector<int64_t> modes = f.input_modes;
    if (layer.embedding) {
      for (size_t i = 0; i < modes.size(); ++i) modes[i] *= f.output_modes[i];
    } else {
      modes.insert(modes.end(), f.output_modes.begin(), f.output_modes.end());
    }
    for (size_t b = 0; b < f.ranks.size(); ++b) {
      int64_t left = 1, right = 1;
      for (size_t i = 0; i < modes.size(); ++i) {
        (i <= b ? left : right) *= modes[i];
      }
      f.ranks[b] = std::min(left, right);
    }
  }
  return config;
}

// The parameters of a dense model under the names of BERT or RoBERTa.
Tensors Renamed(const TestModel& dense, const std::string& prefix,
                bool roberta) {
  const std::string lm = roberta ? "lm_head." : "cls.predictions.";
  const std::string transform =
      roberta ? "lm_head.dense" : "cls.predictions.transform.dense";
  const std::string norm =
      roberta ? "lm_head.layer_norm" : "cls.predictions.transform.LayerNorm";
  Tensors tensors;
  for (const Parameter& p : dense.model->layout().parameters()) {
    NamedTensor tensor;
    tensor.shape = p.shape;
    tensor.values.assign(dense.parameters.begin() + p.offset,
                         dense.parameters.begin() + p.offset + p.size);
    std::string name = p.name;
    const bool table = absl::StartsWith(name, "encoder.embedding.");
    if (p.shape.size() == 2 && !table) {
      std::swap(tensor.shape[0], tensor.shape[1]);
      for (int64_t i = 0; i < p.shape[0]; ++i) {
        for (int64_t j = 0; j < p.shape[1]; ++j) {
          tensor.values[j * p.shape[0] + i] =
              dense.parameters[p.offset + i * p.shape[1] + j];
        }
      }
    }
    if (roberta && name == "encoder.embedding.position") {
      tensor.shape[0] += 2;
      tensor.values.insert(tensor.values.begin(), 2 * p.shape[1], 77.0f);
    }
    name = absl::StrReplaceAll(
        name,
        {{"encoder.embedding.word.", prefix + "embeddings.word_embeddings."},
         {"encoder.embedding.position",
          prefix + "embeddings.position_embeddings.weight"},
         {"encoder.embedding.segment",
          prefix + "embeddings.token_type_embeddings.weight"},
         {"encoder.embedding.norm", prefix + "embeddings.LayerNorm"},
         {"encoder.layers.", prefix + "encoder.layer."},
         {"attention.query", "attention.self.query"},
         {"attention.key", "attention.self.key"},
         {"attention.value", "attention.self.value"},
         {"attention.output", "attention.output.dense"},
         {"attention.norm", "attention.output.LayerNorm"},
         {"ffn.up", "intermediate.dense"},
         {"ffn.down", "output.dense"},
         {"ffn.norm", "output.LayerNorm"},
         {"head.transform", transform},
         {"head.norm", norm},
         {"head.output.weight", lm + "decoder.weight"},
         {"head.output.bias", lm + "bias"},
         {"head.fc1", roberta ? "classifier.dense" : prefix + "pooler.dense"},
         {"head.fc2", roberta ? "classifier.out_proj" : "classifier"}});
    if (roberta) {
      name = absl::StrReplaceAll(name,
                                 {{".gamma", ".weight"}, {".beta", ".bias"}});
    }
    tensors[name] = std::move(tensor);
  }
  return tensors;
}

class InitialWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        testing::TempDir(), "/initial_weights_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_));
    path_ = folder_ + "/" + kModelFile;
  }

  void Write(const Tensors& tensors) {
    Safetensors file;
    for (const auto& [name, t] : tensors) {
      ASSERT_OK(file.AddFloat(name, t.shape, t.values.data(), t.values.size()));
    }
    ASSERT_OK(file.WriteAtomically(path_));
  }

  absl::StatusOr<InitialWeightsReport> Load(TestModel* model) {
    return LoadInitialWeights(path_, model->config, model->parameters.data(),
                              nullptr);
  }

  absl::StatusCode CodeOf(TestModel* model) {
    return Load(model).status().code();
  }

  std::string folder_, path_;
};

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b,
                double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << i;
  }
}

TEST_F(InitialWeightsTest, OurExportIntoADenseModelIsACopy) {
  for (auto family : {kClassifier, kMaskedLm}) {
    const TestModel dense(SmallConfig(family, true), 2, /*seed=*/5);
    ASSERT_OK(ExportModel(dense.config, dense.parameters.data(), {}, folder_));
    TestModel copy(dense.config, 2, /*seed=*/6);
    ASSERT_NE(copy.parameters, dense.parameters);
    ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report, Load(&copy));
    EXPECT_EQ(copy.parameters, dense.parameters);
    EXPECT_THAT(report.errors, IsEmpty());
    EXPECT_THAT(report.notes, SizeIs(1));
  }
}

TEST_F(InitialWeightsTest, TensorTrainsOfEnoughRankComputeTheSame) {
  for (auto family : {kClassifier, kMaskedLm}) {
    TestModel dense(SmallConfig(family, true), 2, /*seed=*/5);
    ASSERT_OK(ExportModel(dense.config, dense.parameters.data(), {}, folder_));
    TestModel trains(FullRankConfig(family), 2, /*seed=*/6);
    ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report, Load(&trains));
    EXPECT_EQ(report.errors.size(), trains.model->tensorised_layers().size());
    for (const auto& [layer, error] : report.errors) {
      EXPECT_LT(error, 1e-6) << layer;
    }
    const Batch batch = RandomBatch(dense.config, 2, 4, 1, 1);
    ExpectNear(trains.Logits(batch), dense.Logits(batch), 1e-4);
  }
}

TEST_F(InitialWeightsTest, TruncationIsReported) {
  const TestModel dense(SmallConfig(kMaskedLm, true), 2, /*seed=*/5);
  ASSERT_OK(ExportModel(dense.config, dense.parameters.data(), {}, folder_));
  TestModel trains(SmallConfig(kMaskedLm), 2, /*seed=*/6);
  ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report, Load(&trains));
  ASSERT_EQ(report.errors.size(), 15);
  EXPECT_EQ(report.errors[0].layer, "encoder.embedding.word");
  for (const auto& [layer, error] : report.errors) {
    EXPECT_GT(error, 0.05) << layer;
    EXPECT_LT(error, 0.95) << layer;
  }
  for (const Parameter& p : trains.model->layout().parameters()) {
    if (p.kind != ParameterKind::kRank) continue;
    for (int64_t i = 0; i < p.size; ++i) {
      EXPECT_EQ(trains.parameters[p.offset + i], 1);
    }
  }
}

TEST_F(InitialWeightsTest, NamesOfBertAndRoberta) {
  for (auto family : {kClassifier, kMaskedLm}) {
    const TestModel dense(SmallConfig(family, true), 2, /*seed=*/5);
    for (const bool roberta : {false, true}) {
      for (const std::string prefix : {"", roberta ? "roberta." : "bert."}) {
        Write(Renamed(dense, prefix, roberta));
        TestModel copy(dense.config, 2, /*seed=*/6);
        ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report, Load(&copy));
        EXPECT_EQ(copy.parameters, dense.parameters) << prefix << roberta;
        EXPECT_THAT(report.notes,
                    Contains(HasSubstr(roberta ? "RoBERTa" : "BERT")));
      }
    }
  }
}

TEST_F(InitialWeightsTest, ATiedProjectionIsTheWordEmbedding) {
  const TestModel dense(SmallConfig(kMaskedLm, true), 2, /*seed=*/5);
  Tensors tensors = Renamed(dense, "roberta.", true);
  tensors.erase("lm_head.decoder.weight");
  Write(tensors);
  TestModel copy(dense.config, 2, /*seed=*/6);
  ASSERT_OK(Load(&copy));
  const auto& layout = copy.model->layout();
  const float* words =
      copy.parameters.data() +
      layout[layout.Find("encoder.embedding.word.weight")].offset;
  const float* output =
      copy.parameters.data() + layout[layout.Find("head.output.weight")].offset;
  for (int64_t v = 0; v < 30; ++v) {
    for (int64_t i = 0; i < 12; ++i) {
      ASSERT_EQ(output[i * 30 + v], words[v * 12 + i]);
    }
  }
}

TEST_F(InitialWeightsTest, LargerTablesAreCutAndAMissingHeadStaysRandom) {
  const TestModel dense(SmallConfig(kMaskedLm, true), 2, /*seed=*/5);
  Tensors tensors = Renamed(dense, "bert.", false);
  for (auto it = tensors.begin(); it != tensors.end();) {
    it = absl::StartsWith(it->first, "cls.") ? tensors.erase(it) : ++it;
  }
  NamedTensor& words = tensors["bert.embeddings.word_embeddings.weight"];
  words.shape[0] += 2;
  words.values.insert(words.values.end(), 24, 55.0f);
  NamedTensor& positions =
      tensors["bert.embeddings.position_embeddings.weight"];
  positions.shape[0] += 1;
  positions.values.insert(positions.values.end(), 12, 55.0f);
  NamedTensor& segments =
      tensors["bert.embeddings.token_type_embeddings.weight"];
  segments.shape[0] = 1;
  segments.values.resize(12);
  tensors["bert.encoder.layer.2.output.dense.bias"] = {{12},
                                                       std::vector<float>(12)};
  Write(tensors);
  const TestModel random(dense.config, 2, /*seed=*/6);
  TestModel copy(dense.config, 2, /*seed=*/6);
  ASSERT_OK_AND_ASSIGN(const InitialWeightsReport report, Load(&copy));
  EXPECT_THAT(report.notes,
              Contains(AllOf(HasSubstr("random"),
                             HasSubstr("cls.predictions.transform.dense"))));
  EXPECT_THAT(report.notes, Contains(HasSubstr("1 of 2 segment")));
  EXPECT_THAT(report.notes,
              Contains(HasSubstr("1 tensors are not used: "
                                 "bert.encoder.layer.2.output.dense.bias")));
  for (const Parameter& p : dense.model->layout().parameters()) {
    const bool from_file = !p.in_head && p.name != "encoder.embedding.segment";
    if (p.name == "head.output.weight") continue;  // the words
    const std::vector<float>& expected =
        from_file ? dense.parameters : random.parameters;
    for (int64_t i =
             p.offset + (p.name == "encoder.embedding.segment" ? 12 : 0);
         i < p.offset + p.size; ++i) {
      ASSERT_EQ(copy.parameters[i], expected[i]) << p.name;
    }
  }
}

TEST_F(InitialWeightsTest, BadFilesAreRefusedByName) {
  const TestModel dense(SmallConfig(kMaskedLm, true), 2, /*seed=*/5);
  const Tensors sound = Renamed(dense, "bert.", false);
  const std::string up = "bert.encoder.layer.1.intermediate.dense.weight";
  const auto expect = [&](const std::function<void(Tensors&)>& damage,
                          absl::StatusCode code,
                          const std::vector<std::string>& words) {
    Tensors tensors = sound;
    damage(tensors);
    Write(tensors);
    TestModel model(SmallConfig(kMaskedLm), 2);
    const absl::Status status = Load(&model).status();
    EXPECT_EQ(status.code(), code) << status;
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(word));
    }
  };
  expect(
      [&](Tensors& t) {
        t.erase(up);
        t.erase("bert.embeddings.LayerNorm.beta");
      },
      absl::StatusCode::kInvalidArgument,
      {"2 tensors are missing", up, "bert.embeddings.LayerNorm."});
  expect(
      [&](Tensors& t) { std::swap(t[up].shape[0], t[up].shape[1]); },
      absl::StatusCode::kInvalidArgument,
      {up, "(12, 24)", "expected (24, 12)", "encoder.layers.1.ffn.up.weight"});
  expect([&](Tensors& t) { t[up].shape = {288}; },
         absl::StatusCode::kInvalidArgument, {up, "(288)"});
  expect(
      [&](Tensors& t) {
        t[up].values[3] = std::numeric_limits<float>::quiet_NaN();
      },
      absl::StatusCode::kDataLoss, {up, "not finite"});
  expect(
      [&](Tensors& t) {
        t["bert.embeddings.word_embeddings.weight"].shape[0] = 29;
        t["bert.embeddings.word_embeddings.weight"].values.resize(29 * 12);
      },
      absl::StatusCode::kInvalidArgument,
      {"word_embeddings", "(30, 12) or more"});
  expect([&](Tensors& t) { t.erase("bert.embeddings.word_embeddings.weight"); },
         absl::StatusCode::kInvalidArgument, {"no word embedding"});
  expect(
      [&](Tensors& t) {
        t["x.embeddings.word_embeddings.weight"] =
            t["bert.embeddings.word_embeddings.weight"];
      },
      absl::StatusCode::kInvalidArgument, {"more than one"});

  TestModel model(SmallConfig(kMaskedLm), 2);
  ASSERT_OK(ExportModel(model.config, model.parameters.data(), {}, folder_));
  EXPECT_THAT(Load(&model), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("compressed model")));
  ASSERT_OK(WriteFileAtomically(path_, "no tensors here"));
  EXPECT_EQ(CodeOf(&model), absl::StatusCode::kDataLoss);
  std::filesystem::remove(path_);
  EXPECT_EQ(CodeOf(&model), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace comera::trainer
