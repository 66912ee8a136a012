// Tests exporting causal language models as transformers folders.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/model/small_models.h"
#include "tests/worker/trainer/model/weights/published_tensors.h"
#include "worker/trainer/export/hf_export.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/export.h"
#include "worker/trainer/model/weights/initial_weights.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr auto kLlama = v1::ModelSpec::LLAMA;
constexpr auto kGpt2 = v1::ModelSpec::GPT2;
constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

class HfDecoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = absl::StrCat(
        testing::TempDir(), "/hf_decoder_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    from_ = folder + "/ours";
    to_ = folder + "/theirs";
    ASSERT_OK(MakeDirectories(from_));
    // <unk>, </s> and 28 characters: the vocabulary of the small models.
    Json tokens = {"<unk>", "</s>"};
    for (char c = 'A'; c < 'A' + 28; ++c) tokens.push_back(std::string(1, c));
    ASSERT_OK(WriteFileAtomically(from_ + "/characters.json", tokens.dump()));
  }

  absl::Status Export(const ModelConfig& config,
                      const std::vector<float>& values) {
    const absl::Status written = ExportModel(config, values.data(), {}, from_);
    return written.ok() ? ExportToHuggingFace(from_, to_) : written;
  }

  Json ReadJson(const std::string& name) {
    const absl::StatusOr<std::string> text = ReadFile(to_ + "/" + name);
    return text.ok() ? Json::parse(*text, nullptr, false) : Json();
  }

  // The exported tensors are those of the dense model, to `tolerance`.
  void ExpectTensors(const ModelConfig& dense, const std::vector<float>& values,
                     float tolerance) {
    ASSERT_OK_AND_ASSIGN(const Safetensors file,
                         Safetensors::Read(to_ + "/" + kModelFile));
    const Tensors expected =
        Published(dense, values, dense.llama() ? "model." : "transformer.");
    EXPECT_EQ(file.tensors().size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      ASSERT_EQ(file.tensors().count(name), 1) << name;
      EXPECT_EQ(file.tensors().at(name).shape, tensor.shape) << name;
      ASSERT_OK_AND_ASSIGN(const std::vector<float> actual,
                           file.GetFloat(name));
      ASSERT_EQ(actual.size(), tensor.values.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], tensor.values[i], tolerance) << name;
      }
    }
  }

  std::string from_, to_;
};

std::vector<ModelConfig> DenseConfigs() {
  std::vector<ModelConfig> configs;
  for (auto architecture : {kLlama, kGpt2}) {
    configs.push_back(SmallDecoder(architecture, true));
  }
  ModelConfig tied = configs[0];
  tied.tie_output = true;
  SetLayers(true, &tied);
  configs.push_back(tied);
  return configs;
}

// The same with one method's form in all blocks' layers.
ModelConfig WithForm(v1::ModelSpec::Architecture architecture,
                     const LowRank& form) {
  ModelConfig config = SmallDecoder(architecture, true);
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (layer.embedding || layer.layer_class == "output") continue;
    config.layers_by_name[layer.key].low_rank = form;
  }
  return config;
}

TEST_F(HfDecoderTest, DenseModelsAreCopies) {
  for (const ModelConfig& config : DenseConfigs()) {
    const std::vector<float> values = SomeValues(config);
    ASSERT_OK(Export(config, values));
    ExpectTensors(config, values, 0);
    ASSERT_OK_AND_ASSIGN(const Safetensors file,
                         Safetensors::Read(to_ + "/" + kModelFile));
    EXPECT_EQ(file.metadata().at("format"), "pt");
  }
}

TEST_F(HfDecoderTest, WhatWasWrittenCanBeStartedFrom) {
  for (auto architecture : {kLlama, kGpt2}) {
    const ModelConfig config = SmallDecoder(architecture);
    ASSERT_OK(Export(config, SomeValues(config)));
    ModelConfig dense = SmallDecoder(architecture, true);
    std::vector<float> values(MakeModelLayout(dense).parameters.size());
    ASSERT_OK(LoadInitialWeights(to_, dense, values.data(), nullptr));
    ExpectTensors(dense, values, 0);
    dense.layer_norm_epsilon = 1e-6f;
    EXPECT_THAT(
        LoadInitialWeights(to_, dense, values.data(), nullptr),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json")));
  }
}

TEST_F(HfDecoderTest, AdaptersAndLinearFactorsAreMultipliedOut) {
  using Kind = LowRank::Kind;
  LowRank linear{Kind::kCola, 3, 1, 1};
  linear.linear = true;
  for (const LowRank& form : {LowRank{Kind::kLora, 2, 1, 0.5}, linear}) {
    for (auto architecture : {kLlama, kGpt2}) {
      const ModelConfig config = WithForm(architecture, form);
      const std::vector<float> values = SomeValues(config);
      ASSERT_OK(Export(config, values));
      const ModelConfig dense = SmallDecoder(architecture, true);
      const ParameterLayout from = MakeModelLayout(config).parameters;
      const ParameterLayout to = MakeModelLayout(dense).parameters;
      std::vector<float> expected(to.size());
      for (const Parameter& p : to.parameters()) {
        const int same = from.Find(p.name);
        for (int64_t i = 0; same >= 0 && i < p.size; ++i) {
          expected[p.offset + i] = values[from[same].offset + i];
        }
        const std::string layer = p.name.substr(0, p.name.rfind('.'));
        const int a = from.Find(layer + ".a"), b = from.Find(layer + ".b");
        if (a < 0 || !absl::EndsWith(p.name, ".weight")) continue;
        for (int64_t i = 0; i < p.shape[0]; ++i) {
          for (int64_t j = 0; j < p.shape[1]; ++j) {
            double sum = 0;
            for (int64_t r = 0; r < form.rank; ++r) {
              sum += double{values[from[a].offset + i * form.rank + r]} *
                     values[from[b].offset + r * p.shape[1] + j];
            }
            expected[p.offset + i * p.shape[1] + j] +=
                static_cast<float>(form.scale * sum);
          }
        }
      }
      ExpectTensors(dense, expected, 1e-5f);
    }
  }
}

TEST_F(HfDecoderTest, ConfigOfALlama) {
  ModelConfig config = SmallDecoder(kLlama);
  config.rope_theta = 5e5f;
  ASSERT_OK(Export(config, SomeValues(config)));
  const Json json = ReadJson("config.json");
  const Json expected = {{"architectures", {"LlamaForCausalLM"}},
                         {"model_type", "llama"},
                         {"vocab_size", 30},
                         {"hidden_size", 12},
                         {"intermediate_size", 20},
                         {"num_hidden_layers", 2},
                         {"num_attention_heads", 3},
                         {"num_key_value_heads", 1},
                         {"hidden_act", "silu"},
                         {"max_position_embeddings", 6},
                         {"rms_norm_eps", double{1e-5f}},
                         {"rope_theta", 5e5},
                         {"attention_bias", false},
                         {"tie_word_embeddings", false},
                         {"bos_token_id", 1},
                         {"eos_token_id", 1},
                         {"pad_token_id", 1},
                         {"torch_dtype", "float32"}};
  for (const auto& [field, value] : expected.items()) {
    EXPECT_EQ(json.value(field, Json()), value) << field;
  }
  EXPECT_EQ(
      ReadJson("generation_config.json"),
      Json({{"bos_token_id", 1}, {"eos_token_id", 1}, {"pad_token_id", 1}}));
  EXPECT_TRUE(std::filesystem::exists(to_ + "/characters.json"));
}

TEST_F(HfDecoderTest, ConfigOfAGpt2) {
  const ModelConfig config = SmallDecoder(kGpt2);
  ASSERT_OK(Export(config, SomeValues(config)));
  const Json json = ReadJson("config.json");
  const Json expected = {{"architectures", {"GPT2LMHeadModel"}},
                         {"model_type", "gpt2"},
                         {"vocab_size", 30},
                         {"n_embd", 12},
                         {"n_inner", 20},
                         {"n_layer", 2},
                         {"n_head", 3},
                         {"n_positions", 6},
                         {"activation_function", "gelu_new"},
                         {"layer_norm_epsilon", double{1e-5f}},
                         {"attn_pdrop", 0.0},
                         {"tie_word_embeddings", true}};
  for (const auto& [field, value] : expected.items()) {
    EXPECT_EQ(json.value(field, Json()), value) << field;
  }
}

TEST_F(HfDecoderTest, BytePairsPutNothingAroundATextUnlikeRobertas) {
  std::filesystem::remove(from_ + "/characters.json");
  Json tokens;
  int id = 0;
  for (const char* name : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
    tokens[name] = id++;
  }
  for (char c = 'a'; id < 30; ++c) tokens[std::string(1, c)] = id++;
  ASSERT_OK(WriteFileAtomically(from_ + "/vocab.json", tokens.dump()));
  ASSERT_OK(WriteFileAtomically(from_ + "/merges.txt", "#version: 0.2\n"));
  const ModelConfig config = SmallDecoder(kGpt2, true);
  ASSERT_OK(Export(config, SomeValues(config)));
  const Json tokenizer = ReadJson("tokenizer_config.json");
  EXPECT_EQ(tokenizer.value("tokenizer_class", ""), "GPT2Tokenizer");
  EXPECT_EQ(tokenizer.value("eos_token", ""), "</s>");
  EXPECT_EQ(tokenizer.value("unk_token", ""), "<unk>");
  EXPECT_TRUE(std::filesystem::exists(to_ + "/merges.txt"));
  const Json generation = ReadJson("generation_config.json");
  EXPECT_EQ(
      generation,
      Json({{"bos_token_id", 0}, {"eos_token_id", 2}, {"pad_token_id", 1}}));
}

TEST_F(HfDecoderTest, WhatHasNoSuchFormIsRefused) {
  const ModelConfig cola = WithForm(kGpt2, {LowRank::Kind::kCola, 3, 1, 1});
  EXPECT_THAT(Export(cola, SomeValues(cola)),
              StatusIs(kRefused, HasSubstr("SiLU")));
  ModelConfig ungated = SmallDecoder(kLlama, true);
  ungated.gate_silu = false;
  EXPECT_THAT(Export(ungated, SomeValues(ungated)),
              StatusIs(kRefused, HasSubstr("SiLU")));
  ModelConfig larger = SmallDecoder(kGpt2, true);
  larger.vocabulary = 31;
  EXPECT_THAT(Export(larger, SomeValues(larger)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("31")));
  EXPECT_FALSE(std::filesystem::exists(to_ + "/config.json"));
}

}  // namespace
}  // namespace comera::trainer
