// Tests how a job's specification becomes a model configuration.
#include "worker/trainer/model/config/model_config.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/model/linear/initialise.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The six-encoder model of REFERENCE.md, "Models".
v1::JobSpec SixEncoder() {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
  model.set_layers(6);
  model.set_hidden(768);
  model.set_heads(12);
  model.set_max_positions(512);
  model.set_classes(3);
  spec.mutable_data()->set_max_length(128);
  v1::CompressionSpec& compression = *spec.mutable_compression();
  compression.set_method(v1::CompressionSpec::COMERA);
  const auto set = [](v1::LayerCompression* layer, std::vector<int64_t> in,
                      std::vector<int64_t> out, std::vector<int64_t> ranks) {
    layer->mutable_input_modes()->Add(in.begin(), in.end());
    layer->mutable_output_modes()->Add(out.begin(), out.end());
    layer->mutable_ranks()->Add(ranks.begin(), ranks.end());
  };
  set(compression.mutable_embedding(), {16, 20, 10, 10}, {4, 4, 8, 6}, {32});
  set(compression.mutable_attention(), {12, 8, 8}, {8, 8, 12},
      {12, 30, 30, 30, 12});
  set(compression.mutable_head(), {12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12});
  set(compression.mutable_ffn_up(), {12, 8, 8}, {12, 16, 16},
      {12, 30, 30, 30, 16});
  set(compression.mutable_ffn_down(), {16, 16, 12}, {8, 8, 12},
      {16, 30, 30, 30, 12});
  return spec;
}

TEST(ModelConfigTest, TheMostFrequentTokensAreDense) {
  v1::JobSpec spec = SixEncoder();
  spec.mutable_compression()->mutable_embedding()->clear_input_modes();
  spec.mutable_compression()->mutable_embedding()->clear_output_modes();
  spec.mutable_compression()->mutable_embedding()->set_dense_tokens(3);
  const auto tokens = [&](const std::vector<int64_t>& counts) {
    const auto config = MakeModelConfig(spec, 8, counts);
    EXPECT_OK(config);
    return config->layers_by_name.at("embedding").dense_tokens;
  };
  EXPECT_THAT(tokens({0, 5, 0, 9, 0, 0, 7, 1}), ElementsAre(1, 3, 6));
  EXPECT_THAT(tokens({1, 2, 2, 1, 1, 2, 2, 1}), ElementsAre(1, 2, 5));
  EXPECT_THAT(tokens({}), ElementsAre(0, 1, 2));
  spec.mutable_compression()->mutable_embedding()->set_dense_tokens(8);
  EXPECT_THAT(MakeModelConfig(spec, 8),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("compression.embedding.dense_tokens")));
}

TEST(AutoModesTest, AreBalanced) {
  EXPECT_THAT(AutoModes(768, 3, false), ElementsAre(12, 8, 8));
  EXPECT_THAT(AutoModes(3072, 3, false), ElementsAre(16, 16, 12));
  EXPECT_THAT(AutoModes(192, 3, false), ElementsAre(8, 6, 4));
  EXPECT_THAT(AutoModes(97, 3, false), ElementsAre(97, 1, 1));
  EXPECT_THAT(AutoModes(1, 2, false), ElementsAre(1, 1));
  EXPECT_THAT(AutoModes(12, 1, false), ElementsAre(12));
  EXPECT_THAT(AutoModes(4096, 4, true), ElementsAre(8, 8, 8, 8));
  for (int64_t n : {2, 3, 30522, 52000, 4097}) {
    int64_t product = 1;
    for (int64_t mode : AutoModes(n, 4, true)) product *= mode;
    EXPECT_GE(product, n);
    EXPECT_LE(product, 2 * n);
  }
}

// A LLaMA of width `hidden` whose linear layers have these ranks.
v1::JobSpec LlamaOfRanks(int64_t hidden, const std::vector<int64_t>& ranks) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::CAUSAL_LM);
  model.set_architecture(v1::ModelSpec::LLAMA);
  model.set_layers(1);
  model.set_hidden(hidden);
  model.set_ffn(4 * hidden);
  model.set_heads(4);
  spec.mutable_data()->set_max_length(16);
  v1::CompressionSpec& compression = *spec.mutable_compression();
  compression.set_method(v1::CompressionSpec::COMERA);
  for (v1::LayerCompression* layer :
       {compression.mutable_attention(), compression.mutable_ffn_up(),
        compression.mutable_ffn_down()}) {
    layer->mutable_ranks()->Add(ranks.begin(), ranks.end());
  }
  return spec;
}

TEST(MakeModelConfigTest, MoreCoresOnlyWhereTheyHalveTheLayer) {
  const auto modes = [](int64_t hidden, const std::vector<int64_t>& ranks,
                        const char* layer) {
    const auto config = MakeModelConfig(LlamaOfRanks(hidden, ranks), 1000);
    EXPECT_OK(config);
    return config->layers_by_name.at(layer);
  };
  // 20 (128 + 128) = 5,120 numbers; of six cores 4,864.
  Factorisation f = modes(128, {20}, "layers.0.query");
  EXPECT_THAT(f.input_modes, ElementsAre(128));
  EXPECT_THAT(f.output_modes, ElementsAre(128));
  EXPECT_THAT(f.ranks, ElementsAre(20));
  // 5,120 of two cores, 1,120 of four, 880 of six.
  f = modes(512, {5}, "layers.0.query");
  EXPECT_THAT(f.input_modes, ElementsAre(32, 16));
  EXPECT_THAT(f.output_modes, ElementsAre(16, 32));
  // 32,768 of two cores, 2,560 of four, 1,152 of six.
  f = modes(4096, {4}, "layers.0.query");
  EXPECT_THAT(f.input_modes, ElementsAre(16, 16, 16));
  EXPECT_THAT(f.ranks, ElementsAre(4, 4, 4, 4, 4));
  // Ranks that are given one by one say how many cores there are.
  f = modes(128, {8, 20, 8}, "layers.0.ffn_up");
  EXPECT_THAT(f.input_modes, ElementsAre(16, 8));
  EXPECT_THAT(f.output_modes, ElementsAre(16, 32));
  f = modes(128, {8, 20, 20, 20, 8}, "layers.0.ffn_down");
  EXPECT_THAT(f.input_modes, SizeIs(3));
}

TEST(MakeModelConfigTest, EarlierModesAreFoundByTheirBonds) {
  ASSERT_OK_AND_ASSIGN(ModelConfig config,
                       MakeModelConfig(LlamaOfRanks(128, {20}), 1000));
  const std::optional<Factorisation> six =
      WithEarlierModes(config, "layers.0.query", {8, 20, 0, 20, 8});
  ASSERT_TRUE(six.has_value());
  EXPECT_EQ(six->input_modes, AutoModes(128, 3, false));
  EXPECT_THAT(six->ranks, ElementsAre(8, 20, 0, 20, 8));
  EXPECT_FALSE(WithEarlierModes(config, "layers.0.query", {8, 20}));
  EXPECT_FALSE(
      WithEarlierModes(config, "layers.0.query", {8, 8, 8, 8, 8, 8, 8}));
  EXPECT_FALSE(WithEarlierModes(config, "no such layer", {20, 20, 20}));
  config.layers_by_name.at("layers.0.query").input_modes = {2, 64};
  EXPECT_FALSE(WithEarlierModes(config, "layers.0.query", {8, 20, 8}));
}

TEST(MakeModelConfigTest, SixEncoderHasThePublishedSize) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       MakeModelConfig(SixEncoder(), 30522));
  EXPECT_EQ(config.ffn, 3072);
  EXPECT_FLOAT_EQ(config.dropout, 0.1f);
  const ModelLayout layout = MakeModelLayout(config);
  std::vector<float> parameters(layout.parameters.size());
  InitialiseParameters(config, 1, parameters.data());
  const int64_t counted =
      CountedModelSize(layout.parameters, layout.layers, parameters.data(),
                       config.rank_threshold);
  EXPECT_EQ(counted - FixedSize(layout.parameters), 1026528);
  // 66,498,048 in the dense counterparts of the tensorised layers.
  EXPECT_EQ(DenseParameterCount(config),
            66498048 + FixedSize(layout.parameters));
}

TEST(MakeModelConfigTest, ChoosesModesAndCutsRanks) {
  v1::JobSpec spec;
  spec.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
  spec.mutable_model()->set_layers(1);
  spec.mutable_model()->set_hidden(192);
  spec.mutable_model()->set_heads(6);
  spec.mutable_model()->set_dropout_off(true);
  spec.mutable_data()->set_max_length(32);
  ASSERT_OK_AND_ASSIGN(ModelConfig config, MakeModelConfig(spec, 4096));
  EXPECT_EQ(config.dropout, 0);
  EXPECT_EQ(config.max_positions, 32);
  const Factorisation& query = config.layers_by_name.at("layers.0.query");
  EXPECT_THAT(query.input_modes, ElementsAre(192));
  EXPECT_THAT(query.output_modes, ElementsAre(192));
  EXPECT_THAT(query.ranks, ElementsAre(30));
  const Factorisation& output = config.layers_by_name.at("output");
  EXPECT_THAT(output.input_modes, ElementsAre(8, 6, 4));
  EXPECT_THAT(output.ranks, ElementsAre(8, 30, 30, 30, 16));
  const Factorisation& words = config.layers_by_name.at("embedding");
  EXPECT_THAT(words.input_modes, ElementsAre(8, 8, 8, 8));
  EXPECT_EQ(words.output_modes.size(), 4u);
  EXPECT_THAT(config.layers_by_name.at("output").output_modes,
              ElementsAre(16, 16, 16));

  spec.mutable_compression()->mutable_output()->set_dense(true);
  spec.mutable_compression()->mutable_attention()->add_ranks(4);
  ASSERT_OK_AND_ASSIGN(config, MakeModelConfig(spec, 4096));
  EXPECT_TRUE(config.layers_by_name.at("output").dense());
  EXPECT_THAT(config.layers_by_name.at("layers.0.output").ranks,
              ElementsAre(4, 4, 4));

  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  ASSERT_OK_AND_ASSIGN(config, MakeModelConfig(spec, 4096));
  for (const auto& [key, f] : config.layers_by_name) EXPECT_TRUE(f.dense());
}

TEST(MakeModelConfigTest, NamesTheFieldThatIsWrong) {
  const auto make = [](auto change) {
    v1::JobSpec spec = SixEncoder();
    change(spec);
    return MakeModelConfig(spec, 30522).status();
  };
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->set_layers(0); }),
              refused("model.layers"));
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->set_layers(INT32_MAX); }),
              refused("model.layers"));
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->set_hidden(INT64_MAX); }),
              refused("model.hidden"));
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->set_hidden(-768); }),
              refused("model.hidden"));
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->set_heads(11); }),
              refused("model.hidden"));
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->set_classes(0); }),
              refused("model.classes"));
  EXPECT_THAT(make([](auto& s) { s.mutable_model()->clear_family(); }),
              refused("model.family"));
  EXPECT_THAT(make([](auto& s) { s.mutable_data()->set_max_length(513); }),
              refused("data.max_length"));
  const auto attention = [](auto& s) {
    return s.mutable_compression()->mutable_attention();
  };
  EXPECT_THAT(make([&](auto& s) { attention(s)->set_input_modes(0, 13); }),
              refused("product of input modes"));
  EXPECT_THAT(make([&](auto& s) { attention(s)->set_input_modes(0, -12); }),
              refused("compression.attention"));
  EXPECT_THAT(
      make([&](auto& s) { attention(s)->mutable_ranks()->Truncate(2); }),
      refused("compression.attention.ranks: 2 ranks for 5"));
  EXPECT_THAT(make([&](auto& s) { attention(s)->set_ranks(1, 0); }),
              refused("compression.attention.ranks"));
  EXPECT_THAT(MakeModelConfig(SixEncoder(), 40000), refused("embedding"));
}

TEST(InitialiseTest, FollowsSeedAndName) {
  const ModelConfig config = SmallConfig(v1::ModelSpec::MASKED_LM);
  const ModelLayout layout = MakeModelLayout(config);
  std::vector<float> a(layout.parameters.size()), b(a.size()), c(a.size());
  InitialiseParameters(config, 1, a.data());
  InitialiseParameters(config, 1, b.data());
  InitialiseParameters(config, 2, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  const auto at = [&](const std::string& name) {
    return a.data() + layout.parameters[layout.parameters.Find(name)].offset;
  };
  EXPECT_EQ(at("head.norm.gamma")[0], 1);
  EXPECT_EQ(at("head.norm.beta")[0], 0);
  EXPECT_EQ(at("head.output.rank.1")[2], 1);
  EXPECT_NE(at("encoder.layers.0.attention.query.core.0")[0],
            at("encoder.layers.0.attention.key.core.0")[0]);
  for (int i = 0; i < 12; ++i) {
    EXPECT_LE(std::fabs(at("head.transform.bias")[i]), 1 / std::sqrt(12.0));
  }
}

// The unfolding of every core has one singular value, and the product of the
// cores the Frobenius norm that the dense layer would have.
TEST(InitialiseTest, CoresAreOrthonormal) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       MakeModelConfig(SixEncoder(), 30522));
  const ModelLayout layout = MakeModelLayout(config);
  std::vector<float> values(layout.parameters.size());
  InitialiseParameters(config, 7, values.data());
  for (const TensorisedLayer& layer : layout.layers) {
    const bool table = layer.layer_class == "embedding";
    const size_t order = layer.cores.size();
    const size_t middle = table ? order : order / 2;
    double entries = 1, norm = 1;
    for (int64_t mode : layer.modes) entries *= static_cast<double>(mode);
    for (size_t i = 0; i < order; ++i) {
      const Parameter& p = layout.parameters[layer.cores[i]];
      const float* core = values.data() + p.offset;
      const int64_t kept = i < middle ? layer.ranks[i + 1] : layer.ranks[i];
      const int64_t other = p.size / kept;
      const auto dot = [&](int64_t a, int64_t b) {
        double sum = 0;
        for (int64_t o = 0; o < other; ++o) {
          sum += static_cast<double>(
                     core[i < middle ? o * kept + a : a * other + o]) *
                 core[i < middle ? o * kept + b : b * other + o];
        }
        return sum;
      };
      const double scale = dot(0, 0);
      norm *= std::sqrt(scale);
      for (int64_t a = 0; a < kept; ++a) {
        EXPECT_NEAR(dot(a, a), scale, 1e-5 * scale) << p.name;
        EXPECT_NEAR(dot(a, (a + 1) % kept), kept == 1 ? scale : 0, 1e-5 * scale)
            << p.name;
      }
    }
    norm *= std::sqrt(static_cast<double>(layer.ranks[middle]));
    // Query: 768 x 768; the table's rows have deviation 0.02.
    if (table) {
      EXPECT_NEAR(norm, 0.02 * std::sqrt(entries), 1e-3 * norm);
    }
    if (layer.name == "encoder.layers.3.attention.query") {
      EXPECT_NEAR(norm, 768 / std::sqrt(1536.0), 1e-3);
    }
  }
}

// The product of the cores has the variance that the dense layer would have.
TEST(InitialiseTest, PublishedCoresHaveTheirDeviation) {
  v1::JobSpec spec = SixEncoder();
  spec.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, MakeModelConfig(spec, 30522));
  const ModelLayout layout = MakeModelLayout(config);
  std::vector<float> values(layout.parameters.size());
  InitialiseParameters(config, 7, values.data());
  const auto deviation = [&](const std::string& name) {
    const Parameter& p = layout.parameters[layout.parameters.Find(name)];
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      const double v = values[p.offset + i];
      sum += v;
      squares += v * v;
    }
    EXPECT_NEAR(sum / p.size, 0, 0.1);
    return std::sqrt(squares / p.size);
  };
  const double sigma = std::pow(1.0 / 1536, 1.0 / 12);
  EXPECT_NEAR(deviation("encoder.layers.3.attention.key.core.2"),
              sigma / std::sqrt(30.0), 0.02 * sigma / std::sqrt(30.0));
  EXPECT_NEAR(deviation("encoder.embedding.word.core.1"), 1 / std::sqrt(32.0),
              0.01);
  EXPECT_NEAR(deviation("encoder.embedding.position"), 1, 0.01);
}

}  // namespace
}  // namespace comera::trainer
