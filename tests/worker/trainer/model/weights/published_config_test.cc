// Tests comparing a published config.json with the job's model.
#include "worker/trainer/model/weights/published_config.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/config_json.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PublishedConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        testing::TempDir(), "/published_config_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    ASSERT_OK(MakeDirectories(folder_));
  }

  absl::Status Check(const Json& json, const ModelConfig& config) {
    const absl::Status written =
        WriteFileAtomically(folder_ + "/config.json", json.dump());
    return written.ok() ? CheckPublishedConfig(folder_, config) : written;
  }

  // Every change alone is refused by the name of its field.
  void ExpectRefused(const Json& sound, const ModelConfig& config,
                     const std::vector<std::pair<std::string, Json>>& changes) {
    ASSERT_OK(Check(sound, config));
    for (const auto& [field, value] : changes) {
      Json json = sound;
      json[field] = value;
      EXPECT_THAT(
          Check(json, config),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   AllOf(HasSubstr(absl::StrCat(": ", field, ": expected ")),
                         HasSubstr("the job's model has"))))
          << field << " " << value;
    }
  }

  std::string folder_;
};

// What the transformers library writes of SmallDecoder(LLAMA).
Json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_act", "silu"},
          {"hidden_size", 12},
          {"intermediate_size", 20},
          {"num_attention_heads", 3},
          {"num_hidden_layers", 2},
          {"num_key_value_heads", 1},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"rope_scaling", nullptr},
          {"tie_word_embeddings", false},
          {"max_position_embeddings", 2048},
          {"vocab_size", 32}};
}

Json Gpt2() {
  return {{"model_type", "gpt2"},
          {"n_embd", 12},
          {"n_layer", 2},
          {"n_head", 3},
          {"n_inner", 20},
          {"n_positions", 6},
          {"n_ctx", 6},
          {"layer_norm_epsilon", 1e-5},
          {"activation_function", "gelu_new"},
          {"vocab_size", 30}};
}

TEST_F(PublishedConfigTest, Llama) {
  const ModelConfig config = SmallDecoder(v1::ModelSpec::LLAMA);
  ExpectRefused(Llama(), config,
                {{"model_type", "gemma"},
                 {"model_type", nullptr},
                 {"hidden_act", "gelu"},
                 {"hidden_size", 16},
                 {"hidden_size", "12"},
                 {"intermediate_size", 24},
                 {"num_attention_heads", 4},
                 {"num_hidden_layers", 3},
                 {"num_key_value_heads", 3},
                 {"num_key_value_heads", nullptr},
                 {"head_dim", 8},
                 {"rms_norm_eps", 1e-6},
                 {"rms_norm_eps", nullptr},
                 {"rope_theta", 500000},
                 {"rope_scaling", {{"rope_type", "llama3"}}},
                 {"rope_parameters", {{"rope_type", "yarn"}}},
                 {"rope_parameters", 7},
                 {"sliding_window", 4},
                 {"attention_bias", true},
                 {"mlp_bias", true},
                 {"tie_word_embeddings", true},
                 {"vocab_size", 29}});
}

TEST_F(PublishedConfigTest, DefaultsAndOtherSpellings) {
  ModelConfig config = SmallDecoder(v1::ModelSpec::LLAMA);
  Json json = Llama();
  json["model_type"] = "mistral";
  json["sliding_window"] = 5;
  json["head_dim"] = 4;
  for (const char* field :
       {"rope_theta", "hidden_act", "tie_word_embeddings"}) {
    json.erase(field);
  }
  EXPECT_OK(Check(json, config));
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_THAT(Check(json, config), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("rope_theta")));
  config.rope_theta = 5e5f;
  EXPECT_OK(Check(json, config));
  config.kv_heads = 0;
  json["num_key_value_heads"] = 3;
  EXPECT_OK(Check(json, config));
}

TEST_F(PublishedConfigTest, Gpt2) {
  const ModelConfig config = SmallDecoder(v1::ModelSpec::GPT2);
  ExpectRefused(Gpt2(), config,
                {{"model_type", "llama"},
                 {"n_embd", 13},
                 {"n_layer", 1},
                 {"n_head", 4},
                 {"n_inner", nullptr},
                 {"n_positions", 5},
                 {"layer_norm_epsilon", 1e-6},
                 {"activation_function", "gelu"},
                 {"tie_word_embeddings", false},
                 {"scale_attn_weights", false},
                 {"scale_attn_by_inverse_layer_idx", true},
                 {"add_cross_attention", true},
                 {"vocab_size", 7}});
}

TEST_F(PublishedConfigTest, OurOwn) {
  const ModelConfig config = SmallDecoder(v1::ModelSpec::LLAMA, true);
  ModelConfig compressed = SmallDecoder(v1::ModelSpec::LLAMA);
  const auto file = [](const ModelConfig& c) {
    return Json{{"format", "comera-model"}, {"model", ModelConfigToJson(c)}};
  };
  EXPECT_OK(Check(file(config), compressed));
  compressed.rope_theta = 5e5f;
  EXPECT_THAT(Check(file(config), compressed),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rope_theta: expected 500000.0")));
  EXPECT_EQ(Check({{"format", "comera-model"}}, config).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(PublishedConfigTest, NoFileAndMalformedOnes) {
  const ModelConfig config = SmallDecoder(v1::ModelSpec::LLAMA);
  EXPECT_OK(CheckPublishedConfig(folder_, config));
  for (const char* text : {"", "{", "[]", "7"}) {
    ASSERT_OK(WriteFileAtomically(folder_ + "/config.json", text));
    EXPECT_EQ(CheckPublishedConfig(folder_, config).code(),
              absl::StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace comera::trainer
