// How a decoder's specification becomes a configuration, and its JSON.
#include <cmath>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/config_json.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/initialise.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

using Compression = v1::CompressionSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Hidden 96 in 6 heads.
v1::JobSpec Spec(Compression::Method method = Compression::DENSE) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::CAUSAL_LM);
  model.set_layers(2);
  model.set_hidden(96);
  model.set_heads(6);
  spec.mutable_data()->set_max_length(16);
  spec.mutable_compression()->set_method(method);
  return spec;
}

TEST(DecoderConfigTest, DefaultsAreALlamas) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(Spec(), 100));
  EXPECT_EQ(config.architecture, v1::ModelSpec::LLAMA);
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.ffn, 256);  // 8/3 of 96
  EXPECT_EQ(config.rope_theta, 1e4f);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5f);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_EQ(config.max_positions, 16);
  EXPECT_TRUE(config.gate_silu);
  EXPECT_FALSE(config.tie_output);
  v1::JobSpec wider = Spec();
  wider.mutable_model()->set_hidden(100);  // 266.7 is no multiple of 32
  wider.mutable_model()->set_heads(5);
  ASSERT_OK_AND_ASSIGN(const ModelConfig wide, MakeModelConfig(wider, 100));
  EXPECT_EQ(wide.ffn, 288);
}

TEST(DecoderConfigTest, DefaultsOfGpt2) {
  v1::JobSpec spec = Spec();
  spec.mutable_model()->set_architecture(v1::ModelSpec::GPT2);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(spec, 100));
  EXPECT_EQ(config.ffn, 4 * 96);
  EXPECT_TRUE(config.tie_output);
}

TEST(DecoderConfigTest, TakesWhatIsGiven) {
  v1::JobSpec spec = Spec();
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_kv_heads(2);
  model.set_ffn(100);
  model.set_dropout(0.25);
  model.set_rope_theta(500000);
  model.set_norm_epsilon(0);
  model.set_max_positions(64);
  model.set_tie_output(true);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(spec, 100));
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.ffn, 100);
  EXPECT_EQ(config.dropout, 0.25f);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.layer_norm_epsilon, 0);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_TRUE(config.tie_output);
  EXPECT_EQ(config.layers_by_name.count("output"), 0u);
}

TEST(DecoderConfigTest, ParametersLieInTheOrderOfThePass) {
  const auto names = [](v1::ModelSpec::Architecture architecture) {
    v1::JobSpec spec = Spec();
    spec.mutable_model()->set_architecture(architecture);
    spec.mutable_model()->set_layers(1);
    const ModelConfig config = MakeModelConfig(spec, 100).value();
    const ModelLayout layout = MakeModelLayout(config);
    std::vector<std::string> result;
    for (const Parameter& p : layout.parameters.parameters()) {
      result.push_back(p.name);
    }
    return result;
  };
  EXPECT_THAT(names(v1::ModelSpec::LLAMA),
              ElementsAre("decoder.embedding.word.weight",
                          "decoder.layers.0.attention.norm.gamma",
                          "decoder.layers.0.attention.query.weight",
                          "decoder.layers.0.attention.key.weight",
                          "decoder.layers.0.attention.value.weight",
                          "decoder.layers.0.attention.output.weight",
                          "decoder.layers.0.ffn.norm.gamma",
                          "decoder.layers.0.ffn.gate.weight",
                          "decoder.layers.0.ffn.up.weight",
                          "decoder.layers.0.ffn.down.weight", "head.norm.gamma",
                          "head.output.weight"));
  EXPECT_THAT(
      names(v1::ModelSpec::GPT2),
      ElementsAre(
          "decoder.embedding.word.weight", "decoder.embedding.position",
          "decoder.layers.0.attention.norm.gamma",
          "decoder.layers.0.attention.norm.beta",
          "decoder.layers.0.attention.query.weight",
          "decoder.layers.0.attention.query.bias",
          "decoder.layers.0.attention.key.weight",
          "decoder.layers.0.attention.key.bias",
          "decoder.layers.0.attention.value.weight",
          "decoder.layers.0.attention.value.bias",
          "decoder.layers.0.attention.output.weight",
          "decoder.layers.0.attention.output.bias",
          "decoder.layers.0.ffn.norm.gamma", "decoder.layers.0.ffn.norm.beta",
          "decoder.layers.0.ffn.up.weight", "decoder.layers.0.ffn.up.bias",
          "decoder.layers.0.ffn.down.weight", "decoder.layers.0.ffn.down.bias",
          "head.norm.gamma", "head.norm.beta"));
}

TEST(DecoderConfigTest, KeysOfFewerHeadsAreNarrower) {
  v1::JobSpec spec = Spec(Compression::COMERA);
  spec.mutable_model()->set_kv_heads(2);  // width 32
  v1::LayerCompression& attention =
      *spec.mutable_compression()->mutable_attention();
  for (int64_t mode : {6, 4, 4}) attention.add_input_modes(mode);
  for (int64_t mode : {4, 4, 6}) attention.add_output_modes(mode);
  for (int64_t rank : {6, 8, 9, 8, 6}) attention.add_ranks(rank);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(spec, 100));
  for (const char* part : {"query", "output"}) {
    const Factorisation& f =
        config.layers_by_name.at(std::string("layers.1.") + part);
    EXPECT_THAT(f.output_modes, ElementsAre(4, 4, 6)) << part;
  }
  for (const char* part : {"key", "value"}) {
    const Factorisation& f =
        config.layers_by_name.at(std::string("layers.1.") + part);
    EXPECT_THAT(f.input_modes, ElementsAre(6, 4, 4)) << part;
    EXPECT_THAT(f.output_modes, ElementsAre(2, 4, 4)) << part;
    EXPECT_THAT(f.ranks, ElementsAre(6, 8, 9, 8, 4)) << part;
  }
  // The rank of another method is at most what the narrow ones can hold.
  spec = Spec(Compression::COLA);
  spec.mutable_model()->set_kv_heads(1);  // width 16
  spec.mutable_compression()->mutable_cola()->set_rank(24);
  ASSERT_OK_AND_ASSIGN(const ModelConfig cola, MakeModelConfig(spec, 100));
  EXPECT_EQ(cola.layers_by_name.at("layers.0.value").low_rank.rank, 16);
  EXPECT_EQ(cola.layers_by_name.at("layers.0.query").low_rank.rank, 24);
}

TEST(DecoderConfigTest, ColasNonlinearities) {
  const auto make = [](v1::ColaSpec::Nonlinearity nonlinearity,
                       bool dense_ffn = false) {
    v1::JobSpec spec = Spec(Compression::COLA);
    spec.mutable_compression()->mutable_cola()->set_rank(24);
    spec.mutable_compression()->mutable_cola()->set_nonlinearity(nonlinearity);
    spec.mutable_compression()->mutable_ffn_up()->set_dense(dense_ffn);
    return MakeModelConfig(spec, 100).value();
  };
  const auto linear = [](const ModelConfig& config) {
    return config.layers_by_name.at("layers.1.ffn_down").low_rank.linear;
  };
  for (const auto between : {v1::ColaSpec::NONLINEARITY_UNSPECIFIED,
                             v1::ColaSpec::BETWEEN_FACTORS}) {
    EXPECT_FALSE(make(between).gate_silu);
    EXPECT_FALSE(linear(make(between)));
    // A gate that has no factors keeps its own.
    EXPECT_TRUE(make(between, /*dense_ffn=*/true).gate_silu);
  }
  EXPECT_TRUE(make(v1::ColaSpec::BOTH).gate_silu);
  EXPECT_FALSE(linear(make(v1::ColaSpec::BOTH)));
  EXPECT_TRUE(make(v1::ColaSpec::LINEAR).gate_silu);
  EXPECT_TRUE(linear(make(v1::ColaSpec::LINEAR)));
}

TEST(DecoderConfigTest, NamesTheFieldThatIsWrong) {
  const auto make = [](auto change) {
    v1::JobSpec spec = Spec();
    change(*spec.mutable_model());
    return MakeModelConfig(spec, 100).status();
  };
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(make([](auto& m) { m.set_heads(0); }), refused("model.heads"));
  EXPECT_THAT(make([](auto& m) { m.set_heads(7); }), refused("model.hidden"));
  EXPECT_THAT(make([](auto& m) { m.set_heads(32); }), refused("even width"));
  EXPECT_THAT(make([](auto& m) { m.set_hidden(INT64_MAX); }),
              refused("model.hidden"));
  EXPECT_THAT(make([](auto& m) { m.set_kv_heads(4); }),
              refused("model.kv_heads"));
  EXPECT_THAT(make([](auto& m) { m.set_kv_heads(12); }),
              refused("model.kv_heads"));
  EXPECT_THAT(make([](auto& m) { m.set_rope_theta(0); }),
              refused("model.rope_theta"));
  EXPECT_THAT(make([](auto& m) { m.set_rope_theta(NAN); }),
              refused("model.rope_theta"));
  EXPECT_THAT(make([](auto& m) { m.set_norm_epsilon(-1); }),
              refused("model.norm_epsilon"));
  EXPECT_THAT(make([](auto& m) { m.set_dropout(1); }),
              refused("model.dropout"));
  EXPECT_THAT(make([](auto& m) {
                m.set_architecture(v1::ModelSpec::GPT2);
                m.set_kv_heads(2);
              }),
              refused("model.kv_heads"));
  EXPECT_THAT(make([](auto& m) {
                m.set_architecture(static_cast<v1::ModelSpec::Architecture>(9));
              }),
              refused("model.architecture"));
}

TEST(DecoderConfigTest, InitialValues) {
  v1::JobSpec spec = Spec();
  spec.mutable_model()->set_architecture(v1::ModelSpec::GPT2);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(spec, 1000));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  std::vector<float> values(layout.size());
  InitialiseParameters(config, 1, values.data());
  const auto deviation = [&](const char* name) {
    const Parameter& p = layout[layout.Find(name)];
    double squares = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      squares += std::pow(double{values[p.offset + i]}, 2);
    }
    return std::sqrt(squares / static_cast<double>(p.size));
  };
  EXPECT_NEAR(deviation("decoder.embedding.word.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("decoder.embedding.position"), 0.02, 0.002);
  EXPECT_NEAR(deviation("decoder.layers.1.attention.query.weight"),
              std::sqrt(1 / 192.0), 0.003);
  EXPECT_EQ(deviation("decoder.layers.1.attention.query.bias"), 0);
  EXPECT_EQ(deviation("decoder.layers.1.attention.norm.gamma"), 1);
  EXPECT_EQ(deviation("decoder.layers.1.attention.norm.beta"), 0);
  EXPECT_EQ(deviation("head.norm.gamma"), 1);
}

TEST(DecoderConfigTest, JsonIsReadBack) {
  for (const auto architecture : {v1::ModelSpec::LLAMA, v1::ModelSpec::GPT2}) {
    ModelConfig config = SmallDecoder(architecture);
    config.dropout = 0.25f;
    if (architecture == v1::ModelSpec::LLAMA) {
      config.rope_theta = 500;
      config.gate_silu = false;
      config.layers_by_name["layers.0.ffn_gate"] = {
          {}, {}, {}, {LowRank::Kind::kCola, 3, 1, 1, /*linear=*/true}};
    }
    const nlohmann::json json = ModelConfigToJson(config);
    ASSERT_OK_AND_ASSIGN(const ModelConfig read, ModelConfigFromJson(json));
    EXPECT_EQ(ModelConfigToJson(read), json);
    EXPECT_EQ(read.family, v1::ModelSpec::CAUSAL_LM);
    EXPECT_EQ(read.architecture, architecture);
    EXPECT_EQ(read.kv_heads, config.kv_heads);
    EXPECT_EQ(read.rope_theta, config.rope_theta);
    EXPECT_EQ(read.gate_silu, config.gate_silu);
    EXPECT_EQ(read.tie_output, config.tie_output);
    EXPECT_EQ(read.layer_norm_epsilon, config.layer_norm_epsilon);
    EXPECT_EQ(DenseParameterCount(read), DenseParameterCount(config));
  }
}

TEST(DecoderConfigTest, JsonThatCannotBeIsRefused) {
  const nlohmann::json good =
      ModelConfigToJson(SmallDecoder(v1::ModelSpec::LLAMA));
  const auto expect_refused = [&](const char* field, nlohmann::json value) {
    nlohmann::json json = good;
    json[field] = value;
    EXPECT_THAT(ModelConfigFromJson(json),
                StatusIs(absl::StatusCode::kDataLoss))
        << field << " " << value;
  };
  expect_refused("architecture", "llama9");
  expect_refused("architecture", 3);
  expect_refused("architecture", "gpt2");  // has no gate
  expect_refused("kv_heads", 2);
  expect_refused("kv_heads", 0);
  expect_refused("kv_heads", "one");
  expect_refused("heads", 0);
  expect_refused("rope_theta", -1);
  expect_refused("gate_silu", 1);
  expect_refused("tie_output", true);  // there is an output layer
  expect_refused("hidden", 0);
}

}  // namespace
}  // namespace comera::trainer
