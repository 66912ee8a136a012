// Tests exporting causal language models as GGUF files, with a reader written
// from the format's description.
#include "worker/trainer/export/gguf_export.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/model/small_models.h"
#include "tests/worker/trainer/model/weights/published_tensors.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr auto kLlama = v1::ModelSpec::LLAMA;
constexpr auto kGpt2 = v1::ModelSpec::GPT2;
constexpr uint32_t kString = 8, kArray = 9;

// A file's values, numbers as they are and lists as their lengths, and where
// its tensors are.
struct Gguf {
  struct Tensor {
    // The size of neighbours in memory comes first.
    std::vector<uint64_t> sizes;
    uint32_t type = 0;
    // The numbers of a tensor whose type is 0.
    std::vector<float> floats;
  };
  std::map<std::string, std::string> texts;
  std::map<std::string, double> numbers;
  std::map<std::string, Tensor> tensors;
};

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  Gguf Read() {
    Gguf file;
    EXPECT_EQ(bytes_.substr(0, 4), "GGUF");
    at_ = 4;
    EXPECT_EQ(Pop<uint32_t>(), 3);
    const auto tensors = Pop<uint64_t>();
    const auto values = Pop<uint64_t>();
    for (uint64_t i = 0; i < values; ++i) {
      const std::string key = ReadString();
      const auto type = Pop<uint32_t>();
      if (type == kString) {
        file.texts[key] = ReadString();
      } else if (type == kArray) {
        const auto element = Pop<uint32_t>();
        const auto count = Pop<uint64_t>();
        file.numbers[key] = static_cast<double>(count);
        for (uint64_t j = 0; j < count; ++j) ReadNumber(element);
      } else {
        file.numbers[key] = ReadNumber(type);
      }
    }
    std::map<std::string, uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) {
      const std::string name = ReadString();
      Gguf::Tensor& tensor = file.tensors[name];
      tensor.sizes.resize(Pop<uint32_t>());
      for (uint64_t& size : tensor.sizes) size = Pop<uint64_t>();
      tensor.type = Pop<uint32_t>();
      offsets[name] = Pop<uint64_t>();
      EXPECT_EQ(offsets[name] % 32, 0);
    }
    const size_t data = (at_ + 31) / 32 * 32;
    for (auto& [name, tensor] : file.tensors) {
      if (tensor.type != 0) continue;
      at_ = data + offsets[name];
      uint64_t count = 1;
      for (const uint64_t size : tensor.sizes) count *= size;
      for (uint64_t i = 0; i < count; ++i) {
        tensor.floats.push_back(Pop<float>());
      }
    }
    return file;
  }

 private:
  template <typename Number>
  Number Pop() {
    Number number = 0;
    EXPECT_LE(at_ + sizeof(number), bytes_.size());
    if (at_ + sizeof(number) > bytes_.size()) return number;
    std::memcpy(&number, bytes_.data() + at_, sizeof(number));
    at_ += sizeof(number);
    return number;
  }
  std::string ReadString() {
    const auto size = Pop<uint64_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  double ReadNumber(uint32_t type) {
    switch (type) {
      case 0:
      case 7:
        return Pop<uint8_t>();
      case 4:
        return Pop<uint32_t>();
      case 5:
        return Pop<int32_t>();
      case 6:
        return Pop<float>();
      case kString:
        ReadString();
        return 0;
      default:
        ADD_FAILURE() << "type " << type;
        return 0;
    }
  }

  const std::string bytes_;
  size_t at_ = 0;
};

class GgufExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = absl::StrCat(
        testing::TempDir(), "/gguf_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    from_ = folder + "/ours";
    to_ = folder + "/theirs";
    ASSERT_OK(MakeDirectories(from_));
    nlohmann::json tokens = {"<unk>", "</s>"};
    for (char c = 'A'; c < 'A' + 28; ++c) tokens.push_back(std::string(1, c));
    ASSERT_OK(WriteFileAtomically(from_ + "/characters.json", tokens.dump()));
  }

  absl::Status Export(const ModelConfig& config,
                      const std::vector<float>& values, GgufNumber numbers) {
    const absl::Status written = ExportModel(config, values.data(), {}, from_);
    return written.ok() ? ExportToGguf(from_, numbers, to_) : written;
  }

  Gguf Read() {
    const absl::StatusOr<std::string> bytes = ReadFile(to_ + "/model.gguf");
    EXPECT_OK(bytes.status());
    return bytes.ok() ? Reader(*bytes).Read() : Gguf();
  }

  std::string from_, to_;
};

TEST_F(GgufExportTest, KeysOfALlama) {
  ModelConfig config = SmallDecoder(kLlama, true);
  config.rope_theta = 5e5f;
  ASSERT_OK(Export(config, SomeValues(config), GgufNumber::kFloat32));
  const Gguf file = Read();
  EXPECT_EQ(file.texts.at("general.architecture"), "llama");
  EXPECT_EQ(file.texts.at("tokenizer.ggml.model"), "t5");
  const std::map<std::string, double> expected = {
      {"llama.context_length", 6},
      {"llama.embedding_length", 12},
      {"llama.block_count", 2},
      {"llama.feed_forward_length", 20},
      {"llama.attention.head_count", 3},
      {"llama.attention.head_count_kv", 1},
      {"llama.attention.layer_norm_rms_epsilon", double{1e-5f}},
      {"llama.rope.dimension_count", 4},
      {"llama.rope.freq_base", 5e5},
      {"llama.vocab_size", 30},
      {"general.file_type", 0},
      {"tokenizer.ggml.tokens", 30},
      {"tokenizer.ggml.scores", 30},
      {"tokenizer.ggml.token_type", 30},
      {"tokenizer.ggml.bos_token_id", 1},
      {"tokenizer.ggml.eos_token_id", 1},
      {"tokenizer.ggml.add_bos_token", 0}};
  for (const auto& [key, value] : expected) {
    ASSERT_EQ(file.numbers.count(key), 1) << key;
    EXPECT_EQ(file.numbers.at(key), value) << key;
  }
}

TEST_F(GgufExportTest, QueriesAndKeysAreTurnedInPairs) {
  const ModelConfig config = SmallDecoder(kLlama, true);
  const std::vector<float> values = SomeValues(config);
  ASSERT_OK(Export(config, values, GgufNumber::kFloat32));
  const Tensors theirs = Published(config, values, "model.");
  const Gguf file = Read();
  EXPECT_EQ(file.tensors.size(), theirs.size());
  // Rows of a head of 4: 0 and 2, then 1 and 3.
  constexpr int kRow[] = {0, 2, 1, 3};
  for (const auto& [name, published] :
       {std::pair("blk.1.attn_q.weight",
                  "model.layers.1.self_attn.q_proj.weight"),
        std::pair("blk.1.attn_k.weight",
                  "model.layers.1.self_attn.k_proj.weight")}) {
    const Gguf::Tensor& tensor = file.tensors.at(name);
    const NamedTensor& expected = theirs.at(published);
    const auto rows = static_cast<uint64_t>(expected.shape[0]);
    ASSERT_EQ(tensor.sizes, (std::vector<uint64_t>{12, rows}));
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t i = 0; i < 12; ++i) {
        EXPECT_EQ(tensor.floats[r * 12 + i],
                  expected.values[(r / 4 * 4 + kRow[r % 4]) * 12 + i]);
      }
    }
  }
  EXPECT_EQ(file.tensors.at("blk.0.ffn_gate.weight").floats,
            theirs.at("model.layers.0.mlp.gate_proj.weight").values);
  EXPECT_EQ(file.tensors.at("output.weight").floats,
            theirs.at("lm_head.weight").values);
  EXPECT_EQ(file.tensors.at("output_norm.weight").floats,
            theirs.at("model.norm.weight").values);
}

TEST_F(GgufExportTest, TensorsOfAGpt2) {
  const ModelConfig config = SmallDecoder(kGpt2, true);
  const std::vector<float> values = SomeValues(config);
  ASSERT_OK(Export(config, values, GgufNumber::kFloat32));
  const Tensors theirs = Published(config, values, "transformer.");
  const Gguf file = Read();
  EXPECT_EQ(file.texts.at("general.architecture"), "gpt2");
  EXPECT_EQ(file.tensors.size(), theirs.size());
  const Gguf::Tensor& joined = file.tensors.at("blk.0.attn_qkv.weight");
  const NamedTensor& expected = theirs.at("transformer.h.0.attn.c_attn.weight");
  ASSERT_EQ(joined.sizes, (std::vector<uint64_t>{12, 36}));
  for (int row = 0; row < 36; ++row) {
    for (int i = 0; i < 12; ++i) {
      // Theirs is (inputs, outputs).
      EXPECT_EQ(joined.floats[row * 12 + i], expected.values[i * 36 + row]);
    }
  }
  for (const auto& [name, published] :
       {std::pair("blk.0.attn_qkv.bias", "h.0.attn.c_attn.bias"),
        std::pair("position_embd.weight", "wpe.weight"),
        std::pair("token_embd.weight", "wte.weight"),
        std::pair("blk.1.ffn_norm.bias", "h.1.ln_2.bias")}) {
    EXPECT_EQ(file.tensors.at(name).floats,
              theirs.at(absl::StrCat("transformer.", published)).values);
  }
  EXPECT_EQ(file.tensors.count("output.weight"), 0);
}

TEST_F(GgufExportTest, RowsThatAreNoBlocksAreFloat16) {
  ModelConfig config = SmallDecoder(kLlama, true);
  config.ffn = 32;
  ASSERT_OK(Export(config, SomeValues(config), GgufNumber::kQ8_0));
  const Gguf file = Read();
  EXPECT_EQ(file.numbers.at("general.file_type"), 7);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_down.weight").type, 8);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_up.weight").type, 1);
  EXPECT_EQ(file.tensors.at("blk.0.ffn_norm.weight").type, 0);
}

TEST_F(GgufExportTest, WhatHasNoSuchFormIsRefused) {
  const auto refused = absl::StatusCode::kFailedPrecondition;
  ModelConfig ungated = SmallDecoder(kLlama, true);
  ungated.gate_silu = false;
  EXPECT_THAT(Export(ungated, SomeValues(ungated), GgufNumber::kFloat32),
              StatusIs(refused, HasSubstr("SiLU")));
  const ModelConfig masked = SmallConfig(v1::ModelSpec::MASKED_LM, true);
  EXPECT_THAT(Export(masked, SomeValues(masked), GgufNumber::kFloat32),
              StatusIs(refused, HasSubstr("causal")));
  ModelConfig larger = SmallDecoder(kGpt2, true);
  larger.vocabulary = 31;
  EXPECT_THAT(Export(larger, SomeValues(larger), GgufNumber::kFloat32),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("31")));
  const ModelConfig config = SmallDecoder(kGpt2, true);
  std::vector<float> values = SomeValues(config);
  values[0] = 1e6f;
  EXPECT_THAT(
      Export(config, values, GgufNumber::kFloat16),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("token_embd.weight")));
  // llama.cpp has no WordPiece that keeps the case, and lower-cases otherwise.
  std::filesystem::remove(from_ + "/characters.json");
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < 30; ++i) absl::StrAppend(&words, "w", i, "\n");
  ASSERT_OK(WriteFileAtomically(from_ + "/vocab.txt", words));
  EXPECT_THAT(Export(config, SomeValues(config), GgufNumber::kFloat16),
              StatusIs(refused, HasSubstr("WordPiece")));
  EXPECT_FALSE(std::filesystem::exists(to_));
}

}  // namespace
}  // namespace comera::trainer
