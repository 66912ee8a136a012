// Compares ids with those of the tokenizers' own libraries, and checks that
// they decode to the text. The texts are in COMERA_SHARED_DIR.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/data/tokenizer/small_files.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"
#include "worker/trainer/data/tokenizer/text_stream.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

namespace comera::trainer {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr char kFolder[] = "golden/causal_lm/tokenizers/";

class GoldenIdsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (SharedFile(absl::StrCat(kFolder, "roberta_ids.json")).empty()) {
      GTEST_SKIP() << "COMERA_SHARED_DIR has no golden tokenizers";
    }
  }
  static std::string File(const std::string& name) {
    return SharedFile(kFolder + name);
  }
};

json Cases(const std::string& file) {
  const auto contents = ReadFile(file);
  EXPECT_OK(contents);
  return contents.ok() ? ParseJson(*contents)["cases"] : json::array();
}

// Compares the ids of every case with its member `key`, or with "ids" where it
// lacks that.
void ExpectIds(const json& cases, const char* key, Tokenizer* tokenizer) {
  EXPECT_GE(cases.size(), 60u);
  for (const json& each : cases) {
    Ids ids;
    tokenizer->Encode(each["text"].get<std::string>(), &ids);
    const json& expected = each.contains(key) ? each[key] : each["ids"];
    EXPECT_EQ(ids, expected.get<Ids>()) << each["text"];
  }
}

// Decodes the ids of every case, at once and one at a time.
void ExpectText(const json& cases, const Tokenizer& tokenizer) {
  for (const json& each : cases) {
    const Ids ids = each["ids"].get<Ids>();
    const std::string text = each["text"].get<std::string>();
    EXPECT_EQ(tokenizer.Decode(ids), text);
    TextStream stream(&tokenizer, TextStream::Start::kText);
    std::string joined;
    for (const int32_t id : ids) joined += stream.Add(id);
    EXPECT_EQ(joined, text);
    EXPECT_EQ(stream.Finish(), "") << text;
  }
}

TEST_F(GoldenIdsTest, HuggingFace) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      HuggingFaceTokenizer::Load(File("bytelevel_small.tokenizer.json")));
  const json cases = Cases(File("bytelevel_small_ids.json"));
  ExpectIds(cases, "ids", tokenizer.get());
  ExpectText(cases, *tokenizer);
}

TEST_F(GoldenIdsTest, SentencePiece) {
  for (const std::string name : {"llama_spm_small", "mistral_v1"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                         SentencePieceTokenizer::Load(File(name + ".model")));
    const json cases = Cases(File(name + "_ids.json"));
    ExpectIds(cases, "ids", tokenizer.get());
    ExpectText(cases, *tokenizer);
  }
}

TEST_F(GoldenIdsTest, Roberta) {
  ASSERT_OK_AND_ASSIGN(
      BytePairVocabulary vocabulary,
      LoadBytePairVocabulary(SharedFile("data/vocab/roberta/vocab.json"),
                             SharedFile("data/vocab/roberta/merges.txt")));
  const json cases = Cases(File("roberta_ids.json"));

  // The same vocabulary as a tokenizer.json that puts a space in front.
  json file = SmallTokenizerJson({});
  file["added_tokens"] = nullptr;
  file["pre_tokenizer"]["add_prefix_space"] = true;
  json& model = file["model"];
  model["vocab"] = json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    model["vocab"][vocabulary.tokens[id]] = id;
  }
  model["merges"] = json::array();
  for (const BytePairVocabulary::Merge& merge : vocabulary.merges) {
    model["merges"].push_back(json::array(
        {vocabulary.tokens[merge.left], vocabulary.tokens[merge.right]}));
  }
  ASSERT_OK_AND_ASSIGN(const auto prefixed,
                       HuggingFaceTokenizer::Parse(JsonText(file), "roberta"));
  ExpectIds(cases, "ids_add_prefix_space", prefixed.get());

  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       ByteBpeTokenizer::Create(std::move(vocabulary)));
  ExpectIds(cases, "ids", tokenizer.get());
  ExpectText(cases, *tokenizer);
}

TEST_F(GoldenIdsTest, BertUncased) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      WordpieceTokenizer::Load(SharedFile("data/vocab/bert-uncased/vocab.txt"),
                               /*lowercase=*/true));
  // Words end at 100 characters, as the Hugging Face library has it.
  ExpectIds(Cases(File("bert_uncased_ids.json")), "ids_huggingface",
            tokenizer.get());
}

}  // namespace
}  // namespace comera::trainer
