// Compares the logits of cached decoding with those of the training model,
// which sees whole texts.
#include "worker/trainer/generate/cached_decoder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/generate/random_decoder.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

constexpr int64_t kLength = 19;
constexpr double kTolerance = 2e-5;

class CachedDecoderTest : public ::testing::TestWithParam<DecoderCase> {
 protected:
  // The model as it is served: exported and read again.
  void SetUp() override {
    const DecoderCase& c = GetParam();
    const ModelConfig config = DecoderConfig(c, kLength);
    ASSERT_OK(ExportModel(config, DecoderParameters(c, config).data(), {},
                          folder_.path()));
    ASSERT_OK_AND_ASSIGN(model_, ImportModel(folder_.path()));
    backend_ = kernels::CreateCpuBackend({});
    CachedDecoder::Options options;
    options.max_slots = 3;
    options.chunk = 8;
    ASSERT_OK_AND_ASSIGN(
        decoder_, CachedDecoder::Create(model_.config, model_.parameters.data(),
                                        options, backend_.get()));
    texts_ = RandomBatch(model_.config, 3, 0, 0, 5);
    std::fill(texts_.segments.begin(), texts_.segments.end(), 0);
    TestModel whole(model_.config, 3);
    whole.parameters = model_.parameters;
    for (size_t row = 0; row < texts_.ids.size(); ++row) {
      texts_.label_rows.push_back(static_cast<int32_t>(row));
      texts_.labels.push_back(0);
    }
    expected_ = whole.Logits(texts_);
  }

  NewToken Token(int64_t slot, int64_t text, int64_t position) const {
    return {slot, position, texts_.ids[text * kLength + position], false};
  }
  // The logits after a token of a text, which begin at `actual`.
  void ExpectLogits(const float* actual, int64_t text, int64_t position) const {
    const int64_t width = model_.config.vocabulary;
    const float* const expected =
        expected_.data() + (text * kLength + position) * width;
    double largest = 1, error = 0;
    for (int64_t i = 0; i < width; ++i) {
      largest = std::max<double>(largest, std::fabs(expected[i]));
      error = std::max<double>(error, std::fabs(actual[i] - expected[i]));
    }
    EXPECT_LT(error, kTolerance * largest)
        << "text " << text << ", position " << position;
  }

  TempFolder folder_;
  ImportedModel model_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<CachedDecoder> decoder_;
  Batch texts_;
  std::vector<float> expected_, logits_;
};

TEST_P(CachedDecoderTest, ATokenAtATime) {
  for (int64_t text = 0; text < 3; ++text) {
    for (int64_t i = 0; i < kLength; ++i) {
      NewToken token = Token(1, text, i);
      token.logits = true;
      ASSERT_OK(decoder_->Step({token}, &logits_));
      ASSERT_EQ(logits_.size(), model_.config.vocabulary);
      ExpectLogits(logits_.data(), text, i);
    }
  }
}

// A text arrives in chunks while another grows by a token each step and a third
// takes the place of one that ended.
TEST_P(CachedDecoderTest, TextsBesideEachOther) {
  int64_t first = 0, second = 0, third = 0;
  while (third < kLength) {
    std::vector<NewToken> tokens;
    std::vector<std::pair<int64_t, int64_t>> wanted;
    const auto add = [&](int64_t slot, int64_t text, int64_t* position,
                         int64_t count) {
      for (; count > 0 && *position < kLength; --count, ++*position) {
        tokens.push_back(Token(slot, text, *position));
      }
      tokens.back().logits = true;
      wanted.push_back({text, *position - 1});
    };
    if (second < kLength) add(2, 1, &second, 1);
    if (first < kLength) {
      add(0, 0, &first, 7);
    } else {
      add(0, 2, &third, 3);
    }
    ASSERT_OK(decoder_->Step(tokens, &logits_));
    for (size_t i = 0; i < wanted.size(); ++i) {
      ExpectLogits(logits_.data() + i * model_.config.vocabulary,
                   wanted[i].first, wanted[i].second);
    }
  }
}

TEST_P(CachedDecoderTest, KeysAndValuesTakeTheExpectedForm) {
  const auto& layers = decoder_->layers().blocks[0].attention.layers;
  ASSERT_TRUE(layers.has_value());
  const int64_t all = model_.config.key_width();
  EXPECT_EQ(layers->key_columns() < all, GetParam().rank_keys);
  EXPECT_EQ(layers->value_columns() < all, GetParam().rank_values);
}

TEST_P(CachedDecoderTest, TokensOutsideTheLimitsAreRefused) {
  const std::vector<std::vector<NewToken>> refused = {
      {{3, 0, 1}},       {{-1, 0, 1}},
      {{0, kLength, 1}}, {{0, -1, 1}},
      {{0, 0, 31}},      {{0, 0, -1}},
      {12, NewToken{}},  {4, NewToken{0, 0, 0, true}}};
  for (const std::vector<NewToken>& tokens : refused) {
    EXPECT_THAT(decoder_->Step(tokens, &logits_),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

std::vector<DecoderCase> Cases() {
  using Kind = LowRank::Kind;
  std::vector<DecoderCase> cases;
  const auto add = [&](const std::string& name, bool gpt2) -> DecoderCase& {
    DecoderCase c;
    c.name = name;
    if (gpt2) c.architecture = v1::ModelSpec::GPT2;
    c.tied = gpt2;
    cases.push_back(c);
    return cases.back();
  };
  for (const bool gpt2 : {false, true}) {
    const std::string kind = gpt2 ? "Gpt2" : "Llama";
    add(kind + "Dense", gpt2);
    DecoderCase& cores = add(kind + "Cores", gpt2);
    cores.rank = 5;
    cores.rank_keys = gpt2;
    cores.rank_values = true;
    DecoderCase& silu = add(kind + "SiluCores", gpt2);
    silu.rank = 5;
    silu.silu = true;
    silu.rank_keys = gpt2;
    // A value's bias cannot pass the activation of the output's factors.
    silu.rank_values = !gpt2;
    // Too wide for the rank space, and for two factors.
    add(kind + "WideCores", gpt2).rank = 12;
    DecoderCase& half = add(kind + "HalfPruned", gpt2);
    half.rank = 5;
    half.rank_values = true;
    half.pruned = {"layers.0.query", "layers.0.key", "layers.1.value",
                   "layers.1.ffn_up"};
    DecoderCase& pruned = add(kind + "Pruned", gpt2);
    pruned.rank = 5;
    pruned.rank_keys = gpt2;
    pruned.rank_values = true;
    pruned.pruned = {"layers.1.output", "layers.0.ffn_down", "layers.1.query"};
    add(kind + "Lora", gpt2).low_rank = {Kind::kLora, 3, 1, 0.5};
    add(kind + "Lte", gpt2).low_rank = {Kind::kLte, 2, 4, 1.5};
    add(kind + "Galore", gpt2).low_rank = {Kind::kGalore, 4, 1, 1};
  }
  for (const auto& [name, linear, gate] :
       {std::tuple{"Between", false, false}, std::tuple{"Both", false, true},
        std::tuple{"Linear", true, true}}) {
    for (const int64_t kv_heads : {2, 4}) {
      DecoderCase& c = add(
          "LlamaCola" + std::string(name) + std::to_string(kv_heads), false);
      c.kv_heads = kv_heads;
      c.low_rank = {Kind::kCola, 5, 1, 1, linear};
      c.gate_silu = gate;
      c.rank_values = true;
    }
  }
  DecoderCase& cola = add("Gpt2Cola", true);
  cola.low_rank = {Kind::kCola, 5, 1, 1, true};
  cola.rank_keys = cola.rank_values = true;
  // A value's bias cannot pass the activation of the output's factors.
  DecoderCase& between = add("Gpt2ColaBetween", true);
  between.low_rank = {Kind::kCola, 5, 1, 1};
  between.rank_keys = true;
  add("LlamaOneKvHead", false).kv_heads = 1;
  DecoderCase& tied = add("LlamaTiedCores", false);
  tied.tied = true;
  tied.rank = 4;
  tied.kv_heads = 2;
  tied.rank_values = true;
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Forms, CachedDecoderTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CachedDecoderMemoryTest, SlotsAreFewerWhereMemoryIsShort) {
  DecoderCase c;
  const ModelConfig config = DecoderConfig(c, kLength);
  const std::vector<float> parameters = DecoderParameters(c, config);
  const auto backend = kernels::CreateCpuBackend({});
  // Two blocks, keys and values of 24 numbers each.
  const int64_t slot = 2 * 2 * 24 * kLength * 4;
  for (const auto& [bytes, slots] :
       {std::pair<int64_t, int64_t>{slot * 3 - 1, 2}, {0, 1}, {slot * 20, 8}}) {
    CachedDecoder::Options options;
    options.max_cache_bytes = bytes;
    ASSERT_OK_AND_ASSIGN(const auto decoder,
                         CachedDecoder::Create(config, parameters.data(),
                                               options, backend.get()));
    EXPECT_EQ(decoder->slots(), slots);
  }
}

TEST(CachedDecoderMemoryTest, AStepHasRoomForATokenOfEverySlot) {
  DecoderCase c;
  const ModelConfig config = DecoderConfig(c, kLength);
  const std::vector<float> parameters = DecoderParameters(c, config);
  const auto backend = kernels::CreateCpuBackend({});
  for (const auto& [asked, chunk] : {std::pair<int64_t, int64_t>{2, 5},
                                     {7, 7},
                                     {0, CachedDecoder::kHostChunk}}) {
    CachedDecoder::Options options;
    options.max_slots = 5;
    options.chunk = asked;
    ASSERT_OK_AND_ASSIGN(const auto decoder,
                         CachedDecoder::Create(config, parameters.data(),
                                               options, backend.get()));
    EXPECT_EQ(decoder->chunk(), chunk);
    EXPECT_EQ(decoder->max_rows(), chunk + 5);
  }
}

}  // namespace
}  // namespace comera::trainer
