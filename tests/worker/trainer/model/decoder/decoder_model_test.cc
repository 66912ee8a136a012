// Tests decoders as a whole: their gradients in every form, documents that
// share a row, and what is left when layers are pruned.
#include "worker/trainer/model/decoder/decoder_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/model/gradient_check.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kLlama = v1::ModelSpec::LLAMA;
constexpr auto kGpt2 = v1::ModelSpec::GPT2;

// Sizes without common factors, and three layers.
ModelConfig OddSizes(v1::ModelSpec::Architecture architecture, bool dense) {
  ModelConfig config = SmallDecoder(architecture, dense);
  config.vocabulary = 29;
  config.layers = 3;
  config.hidden = architecture == kLlama ? 18 : 15;
  config.ffn = 21;
  config.length = 5;
  config.max_positions = 7;
  SetLayers(dense, &config);
  return config;
}

ModelConfig WithHeads(int64_t heads, int64_t kv_heads, bool dense) {
  ModelConfig config = SmallDecoder(kLlama, dense);
  config.hidden = 16;
  config.heads = heads;
  config.kv_heads = kv_heads;
  SetLayers(dense, &config);
  return config;
}

// Every linear layer of the blocks in this form.
ModelConfig WithLowRank(v1::ModelSpec::Architecture architecture, LowRank form,
                        bool gate_silu = true) {
  ModelConfig config = SmallDecoder(architecture, /*dense=*/true);
  config.gate_silu = gate_silu;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    if (layer.embedding || layer.in_head) continue;
    config.layers_by_name[layer.key].low_rank = form;
  }
  return config;
}

struct Case {
  std::string name;
  ModelConfig config;
};

std::vector<Case> Cases() {
  constexpr auto kCola = LowRank::Kind::kCola;
  std::vector<Case> cases;
  for (const bool dense : {false, true}) {
    const std::string form = dense ? "Dense" : "";
    cases.push_back({form + "LlamaOfOddSizes", OddSizes(kLlama, dense)});
    cases.push_back({form + "Gpt2OfOddSizes", OddSizes(kGpt2, dense)});
    cases.push_back({form + "GroupedHeads", WithHeads(4, 2, dense)});
    cases.push_back({form + "AsManyKeysAsQueries", WithHeads(4, 4, dense)});
    cases.push_back({form + "OneHead", WithHeads(1, 1, dense)});
    ModelConfig tied = SmallDecoder(kLlama, dense);
    tied.tie_output = true;
    SetLayers(dense, &tied);
    cases.push_back({form + "TiedLlama", tied});
    tied.dropout = 0.2f;
    cases.push_back({form + "LlamaWithDropout", tied});
    ModelConfig gpt2 = SmallDecoder(kGpt2, dense);
    gpt2.dropout = 0.2f;
    cases.push_back({form + "Gpt2WithDropout", gpt2});
  }
  ModelConfig other_path = SmallDecoder(kLlama);
  other_path.forced_path = kernels::TtPath::kCoreByCore;
  cases.push_back({"CoreByCore", other_path});
  ModelConfig no_gate = SmallDecoder(kLlama, true);
  no_gate.gate_silu = false;
  cases.push_back({"GateWithoutSilu", no_gate});
  ModelConfig far = SmallDecoder(kLlama, true);
  far.rope_theta = 3;
  cases.push_back({"OtherAngles", far});
  cases.push_back(
      {"ColaBetween", WithLowRank(kLlama, {kCola, 4, 1, 1}, false)});
  cases.push_back({"ColaBoth", WithLowRank(kLlama, {kCola, 4, 1, 1})});
  cases.push_back(
      {"ColaLinear", WithLowRank(kLlama, {kCola, 4, 1, 1, /*linear=*/true})});
  cases.push_back({"ColaGpt2", WithLowRank(kGpt2, {kCola, 5, 1, 1})});
  cases.push_back(
      {"Galore", WithLowRank(kLlama, {LowRank::Kind::kGalore, 2, 1, 1})});
  cases.push_back(
      {"Lora", WithLowRank(kLlama, {LowRank::Kind::kLora, 3, 1, 0.5})});
  cases.push_back(
      {"LteGpt2", WithLowRank(kGpt2, {LowRank::Kind::kLte, 2, 1, 1.5})});
  return cases;
}

class DecoderGradientTest : public ::testing::TestWithParam<Case> {};

TEST_P(DecoderGradientTest, AgreesWithFiniteDifferences) {
  TestModel m(GetParam().config, 4);
  EnlargeWeights(m);
  // Factors that begin at 0 would have no gradient on the other side.
  for (const Parameter& p : m.model->layout().parameters()) {
    for (int64_t i = 0; i < p.size; ++i) {
      float& value = m.parameters[p.offset + i];
      if (value == 0) value = 0.1f * static_cast<float>(i % 5 - 2);
    }
  }
  EXPECT_GT(ExpectGradientsAreDerivatives(m, RandomBatch(m.config, 4, 9, 1, 1)),
            15);
}

INSTANTIATE_TEST_SUITE_P(Forms, DecoderGradientTest,
                         ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// Rows of several documents, with padding at the end of one.
Batch Packed(const ModelConfig& config) {
  Batch batch = RandomBatch(config, 3, 0, 0, 5);
  batch.segments = {0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, -1, -1};
  SetLengths({6, 6, 4}, &batch);
  SpreadLabels(config, 13, 5, &batch);
  return batch;
}

// Each document of a batch as a sample of its own.
Batch Separated(const Batch& packed) {
  Batch batch;
  batch.length = packed.length;
  const auto add_padding = [&] {
    while (batch.ids.size() % batch.length != 0) {
      batch.ids.push_back(0);
      batch.segments.push_back(0);
      batch.mask.push_back(0);
    }
  };
  size_t label = 0;
  for (size_t i = 0; i < packed.ids.size(); ++i) {
    if (packed.mask[i] == 0) continue;
    if (i % packed.length == 0 ||
        packed.segments[i] != packed.segments[i - 1]) {
      add_padding();
      ++batch.size;
    }
    if (label < packed.labels.size() &&
        packed.label_rows[label] == static_cast<int32_t>(i)) {
      batch.label_rows.push_back(static_cast<int32_t>(batch.ids.size()));
      batch.labels.push_back(packed.labels[label++]);
    }
    batch.ids.push_back(packed.ids[i]);
    batch.segments.push_back(0);
    batch.mask.push_back(1);
  }
  add_padding();
  return batch;
}

ModelConfig LongDecoder(v1::ModelSpec::Architecture architecture, bool dense) {
  ModelConfig config = SmallDecoder(architecture, dense);
  config.length = config.max_positions;
  return config;
}

TEST(DecoderModelTest, DocumentsOfARowAreAsSeparateSamples) {
  for (const auto architecture : {kLlama, kGpt2}) {
    for (const bool dense : {false, true}) {
      const ModelConfig config = LongDecoder(architecture, dense);
      const Batch packed = Packed(config),
                  separated = Separated(Packed(config));
      ASSERT_EQ(separated.size, 6);
      ASSERT_EQ(separated.labels, packed.labels);
      TestModel together(config, 3), apart(config, 6);
      EnlargeWeights(together);
      EnlargeWeights(apart);
      EXPECT_NEAR(together.Gradient(packed), apart.Gradient(separated), 1e-4);
      ExpectNear(together.gradients, apart.gradients, 1e-5);
      ExpectNear(together.Logits(packed), apart.Logits(separated), 1e-5);
      // Were the row one document, it would compute something else.
      Batch one = packed;
      std::fill(one.segments.begin(), one.segments.end(), 0);
      EXPECT_GT(std::fabs(together.Loss(one) - together.Loss(packed)), 1e-2);
    }
  }
}

// Logits (tokens, vocabulary) of a batch of one sample without padding.
std::vector<float> AllLogits(TestModel& m, Batch batch) {
  SpreadLabels(m.config, batch.length, 1, &batch);
  return m.Logits(batch);
}

TEST(DecoderModelTest, TokensSeeThoseBeforeThemInTheirDocument) {
  for (const auto architecture : {kLlama, kGpt2}) {
    const ModelConfig config = LongDecoder(architecture, true);
    TestModel m(config, 1);
    EnlargeWeights(m);
    Batch batch = RandomBatch(config, 1, 0, 0, 3);
    batch.segments = {0, 0, 0, 1, 1, 1};
    const std::vector<float> before = AllLogits(m, batch);
    for (int64_t changed = 0; changed < 6; ++changed) {
      Batch other = batch;
      other.ids[changed] = (other.ids[changed] + 7) % 30;
      const std::vector<float> after = AllLogits(m, other);
      for (int64_t token = 0; token < 6; ++token) {
        const auto row = before.begin() + token * 30;
        EXPECT_EQ(!std::equal(row, row + 30, after.begin() + token * 30),
                  token >= changed && token / 3 == changed / 3)
            << changed << " " << token;
      }
    }
  }
}

// The loss and gradients of a batch of so many documents that padding of
// sequences is more than the samples.
TEST(DecoderModelTest, EveryTokenMayBeADocument) {
  ModelConfig config = LongDecoder(kLlama, false);
  ModelConfig padding = config;
  padding.pad_batches = true;
  TestModel m(config, 30), padded(padding, 30);
  for (const int64_t size : {30, 11}) {
    Batch batch = RandomBatch(config, size, 40, 0, 3);
    for (int64_t i = 0; i < size * config.length; ++i) {
      batch.segments[i] = static_cast<int32_t>(i % config.length);
    }
    const double loss = m.Gradient(batch);
    EXPECT_NEAR(padded.Gradient(batch), loss, 1e-5 * loss);
    ExpectNear(padded.gradients, m.gradients, 1e-5);
  }
}

TEST(DecoderModelTest, RefusesSegmentsThatAreNoDocuments) {
  TestModel m(SmallDecoder(kLlama), 2);
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
  EXPECT_THAT(status([](Batch& b) { b.segments[4] = 0; }),
              refused("document 0 at token 4"));
  EXPECT_THAT(status([](Batch& b) { b.segments.pop_back(); }),
              refused("segments"));
  EXPECT_THAT(status([](Batch& b) { b.ids.pop_back(); }), refused("ids"));
  EXPECT_THAT(status([](Batch& b) { b.ids[0] = 30; }), refused("vocabulary"));
}

ModelConfig Pruned(ModelConfig config, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    for (int64_t& rank : config.layers_by_name.at(key).ranks) rank = 0;
  }
  return config;
}

// A model whose parameters are functions of their names, so that those that two
// models share are equal.
TestModel Model(const ModelConfig& config) {
  TestModel m(config, 4);
  EnlargeWeights(m);
  for (const Parameter& p : m.model->layout().parameters()) {
    for (int64_t i = 0; i < p.size; ++i) {
      float& value = m.parameters[p.offset + i];
      if (value == 0) value = 0.3f;
      if (p.kind == ParameterKind::kRank) {
        value = 0.4f + 0.1f * static_cast<float>(i);
      }
    }
  }
  return m;
}

// A LLaMA without the half's last layer has nothing of that half, nor without
// what its hidden layer or its heads are products of.
TEST(PrunedDecoderTest, HalvesOfALlamaDisappear) {
  const ModelConfig whole = SmallDecoder(kLlama);
  const Batch batch = RandomBatch(whole, 4, 9, 1, 2);
  TestModel usual = Model(whole);
  const double loss = usual.Loss(batch);
  for (const auto& [half, keys] :
       {std::pair<std::string, std::vector<std::string>>{
            "layers.0.ffn", {"ffn_down", "ffn_gate", "ffn_up"}},
        {"layers.1.attention", {"output", "value"}}}) {
    std::vector<double> losses;
    for (const std::string& key : keys) {
      TestModel m = Model(Pruned(whole, {half.substr(0, 9) + key}));
      losses.push_back(m.Loss(batch));
      EXPECT_LT(m.model->activation_bytes(), usual.model->activation_bytes());
      ExpectGradientsAreDerivatives(m, batch, HasSubstr(half));
      for (const Parameter& p : m.model->layout().parameters()) {
        if (p.name.find(half) == std::string::npos) continue;
        EXPECT_THAT(std::vector<float>(m.gradients.begin() + p.offset,
                                       m.gradients.begin() + p.offset + p.size),
                    Each(0.0f))
            << p.name;
      }
    }
    EXPECT_THAT(losses, Each(losses[0]));
    EXPECT_GT(std::fabs(losses[0] - loss), 1e-3);
  }
}

// The bias of the half's last layer remains in a GPT-2.
TEST(PrunedDecoderTest, HalvesOfAGpt2LeaveTheirBias) {
  const ModelConfig whole = SmallDecoder(kGpt2);
  const Batch batch = RandomBatch(whole, 4, 9, 1, 2);
  for (const char* key : {"layers.0.output", "layers.1.ffn_down"}) {
    TestModel m = Model(Pruned(whole, {key}));
    const std::string half = key == std::string("layers.0.output")
                                 ? "layers.0.attention"
                                 : "layers.1.ffn";
    ExpectGradientsAreDerivatives(
        m, batch, AnyOf(HasSubstr(half), HasSubstr("key.bias")));
    const std::string bias =
        "decoder." + half +
        (half == "layers.1.ffn" ? ".down.bias" : ".output.bias");
    const ParameterLayout& layout = m.model->layout();
    const Parameter& p = layout[layout.Find(bias)];
    EXPECT_THAT(std::vector<float>(m.gradients.begin() + p.offset,
                                   m.gradients.begin() + p.offset + p.size),
                Not(Each(0.0f)));
  }
}

TEST(PrunedDecoderTest, OtherLayersMayBePrunedAlone) {
  struct Pruning {
    v1::ModelSpec::Architecture architecture;
    std::vector<std::string> keys;
    const char* without;  // gradients, besides
  };
  for (const Pruning& pruning :
       {Pruning{kLlama, {"layers.0.query"}, "layers.0.attention.key"},
        Pruning{kLlama, {"layers.0.key"}, "layers.0.attention.query"},
        Pruning{kLlama, {"output"}, ""}, Pruning{kLlama, {"embedding"}, ""},
        Pruning{kGpt2, {"layers.1.value"}, "layers.1.attention"},
        Pruning{kGpt2,
                {"layers.1.query", "layers.1.key"},
                "layers.1.attention.query.bias"},
        Pruning{kGpt2, {"layers.1.ffn_up"}, "layers.1.ffn.norm"}}) {
    SCOPED_TRACE(pruning.keys[0]);
    TestModel m =
        Model(Pruned(SmallDecoder(pruning.architecture), pruning.keys));
    EXPECT_TRUE(std::isfinite(m.Gradient(RandomBatch(m.config, 4, 9, 1, 2))));
    if (pruning.without[0] == '\0') continue;
    ExpectGradientsAreDerivatives(
        m, RandomBatch(m.config, 4, 9, 1, 2),
        AnyOf(HasSubstr(pruning.without), HasSubstr("key.bias")));
  }
}

TEST(PrunedDecoderTest, NothingAtAllIsAUniformGuess) {
  for (const auto architecture : {kLlama, kGpt2}) {
    ModelConfig config = SmallDecoder(architecture);
    for (auto& [key, f] : config.layers_by_name) {
      for (int64_t& rank : f.ranks) rank = 0;
    }
    TestModel m(config, 4);
    const Batch batch = RandomBatch(config, 4, 9, 1, 2);
    EXPECT_NEAR(m.Gradient(batch), 9 * std::log(30.0), 1e-4);
  }
}

}  // namespace
}  // namespace comera::trainer
