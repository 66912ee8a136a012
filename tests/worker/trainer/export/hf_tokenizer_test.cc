// Tests exporting tokenizers as the transformers library keeps them.
#include "worker/trainer/export/hf_tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/trainer/data/tokenizer/byte_level.h"
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

class HfTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = absl::StrCat(
        testing::TempDir(), "/hf_tokenizer_",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    from_ = folder + "/ours";
    to_ = folder + "/theirs";
    ASSERT_OK(MakeDirectories(from_));
    ASSERT_OK(MakeDirectories(to_));
  }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_OK(WriteFileAtomically(from_ + "/" + name, text));
  }

  // Exports what is in from_.
  std::unique_ptr<Tokenizer> Export(bool causal) {
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
        LoadSavedTokenizer(from_);
    EXPECT_OK(tokenizer.status());
    if (!tokenizer.ok()) return nullptr;
    EXPECT_OK(WriteHuggingFaceTokenizer(**tokenizer, causal, to_));
    return *std::move(tokenizer);
  }

  Json ReadJson(const std::string& name) {
    const absl::StatusOr<std::string> text = ReadFile(to_ + "/" + name);
    return text.ok() ? ParseJson(*text) : Json();
  }

  // A vocabulary of all bytes and of a few merges.
  void WriteBytePairs() {
    Json tokens;
    int id = 0;
    for (const char* name : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
      tokens[name] = id++;
    }
    for (const std::string& character : ByteCharacters()) {
      tokens[character] = id++;
    }
    std::string merges = "#version: 0.2\n";
    for (const auto& [left, right] :
         {std::pair<const char*, const char*>{"Ġ", "t"},
          {"h", "e"},
          {"Ġt", "he"},
          {"l", "l"},
          {"#", "#"}}) {
      absl::StrAppend(&merges, left, " ", right, "\n");
      tokens[absl::StrCat(left, right)] = id++;
    }
    Write("vocab.json", tokens.dump());
    Write("merges.txt", merges);
  }

  std::string from_, to_;
};

TEST_F(HfTokenizerTest, BytePairsGiveTheSameIds) {
  WriteBytePairs();
  const std::unique_ptr<Tokenizer> ours = Export(/*causal=*/false);
  ASSERT_NE(ours, nullptr);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HuggingFaceTokenizer> theirs,
                       HuggingFaceTokenizer::Load(to_ + "/tokenizer.json"));
  ASSERT_EQ(theirs->vocabulary_size(), ours->vocabulary_size());
  for (const std::string& text :
       {std::string("the the they'll ##all \t\n  x"),
        std::string("\xff\xe2 é日"), std::string("a\0b", 3), std::string()}) {
    std::vector<int32_t> expected, actual;
    ours->Encode(text, &expected);
    theirs->Encode(text, &actual);
    EXPECT_EQ(actual, expected) << text;
  }
  // What our own encoder takes for text.
  std::vector<int32_t> mask;
  theirs->Encode("a <mask>", &mask);
  EXPECT_EQ(mask, (std::vector<int32_t>{5 + 'a', 4}));
}

TEST_F(HfTokenizerTest, OnlyAnEncodersTextsHaveTokensAroundThem) {
  WriteBytePairs();
  Export(/*causal=*/false);
  EXPECT_EQ(ReadJson("tokenizer.json")["post_processor"]["type"],
            "RobertaProcessing");
  EXPECT_EQ(ReadJson("tokenizer_config.json")["tokenizer_class"],
            "RobertaTokenizer");
  Export(/*causal=*/true);
  EXPECT_EQ(ReadJson("tokenizer.json")["post_processor"], Json());
  const Json config = ReadJson("tokenizer_config.json");
  EXPECT_EQ(config["tokenizer_class"], "GPT2Tokenizer");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_EQ(config["bos_token"], "<s>");
}

TEST_F(HfTokenizerTest, TheCaseOfWordsIsKept) {
  Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\n##b\n");
  for (const bool lowercase : {true, false}) {
    Write("tokenizer_config.json",
          absl::StrCat("{\"do_lower_case\": ", lowercase ? "true" : "false",
                       "}"));
    Export(/*causal=*/false);
    const Json file = ReadJson("tokenizer.json");
    EXPECT_EQ(file["normalizer"]["lowercase"], lowercase);
    EXPECT_EQ(file["model"]["vocab"]["##b"], 6);
    EXPECT_EQ(file["post_processor"]["cls"], Json({"[CLS]", 2}));
    // The folder is read again as it was.
    ASSERT_OK_AND_ASSIGN(const v1::TokenizerSpec saved,
                         FindSavedTokenizer(to_));
    EXPECT_EQ(saved.kind(), v1::TokenizerSpec::WORDPIECE);
    EXPECT_EQ(saved.lowercase(), lowercase);
  }
}

TEST_F(HfTokenizerTest, CharactersAreBytePairsWithoutMerges) {
  Write("characters.json", "[\"<unk>\", \"</s>\", \"a\", \"日\"]");
  Export(/*causal=*/true);
  const Json file = ReadJson("tokenizer.json");
  EXPECT_EQ(file["model"]["merges"], Json::array());
  EXPECT_EQ(file["model"]["unk_token"], "<unk>");
  EXPECT_EQ(file["model"]["vocab"]["日"], 3);
  EXPECT_EQ(file["added_tokens"].size(), 2);
  const Json config = ReadJson("tokenizer_config.json");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_FALSE(config.contains("mask_token"));
}

}  // namespace
}  // namespace comera::trainer
