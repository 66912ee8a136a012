// Tests byte-level BPE tokens.
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/tokenizer/byte_level.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

Ids Encode(Tokenizer* tokenizer, absl::string_view text) {
  Ids ids;
  tokenizer->Encode(text, &ids);
  return ids;
}

// <s> 0, <pad> 1, </s> 2, <unk> 3, byte b at 4 + b, then `merged`, <mask>.
std::string Json(const std::vector<std::string>& merged) {
  BytePairVocabulary vocabulary;
  vocabulary.tokens = {"<s>", "<pad>", "</s>", "<unk>"};
  for (const std::string& c : ByteCharacters()) vocabulary.tokens.push_back(c);
  for (const std::string& token : merged) vocabulary.tokens.push_back(token);
  vocabulary.tokens.push_back("<mask>");
  return VocabularyJson(vocabulary);
}

std::unique_ptr<ByteBpeTokenizer> Make(const std::vector<std::string>& merged,
                                       const std::string& merges) {
  auto vocabulary =
      ParseBytePairVocabulary(Json(merged), "vocab.json", merges, "merges.txt");
  EXPECT_OK(vocabulary);
  auto tokenizer = ByteBpeTokenizer::Create(*std::move(vocabulary));
  EXPECT_OK(tokenizer);
  return *std::move(tokenizer);
}

TEST(ByteBpeTokenizerTest, MergesByRank) {
  // Ids: ab 260, bc 261, abc 262, aa 263.
  auto tokenizer =
      Make({"ab", "bc", "abc", "aa"}, "#version: 0.2\nb c\na b\na bc\na a\n");
  const int32_t a = 4 + 'a', c = 4 + 'c';
  EXPECT_EQ(Encode(tokenizer.get(), "ab"), Ids({260}));
  EXPECT_EQ(Encode(tokenizer.get(), "abc"), Ids({262}));
  EXPECT_EQ(Encode(tokenizer.get(), "cab"), Ids({c, 260}));
  EXPECT_EQ(Encode(tokenizer.get(), "aaa"), Ids({263, a}));
  EXPECT_EQ(Encode(tokenizer.get(), "aaaa"), Ids({263, 263}));
  EXPECT_EQ(Encode(tokenizer.get(), "aabcabc"), Ids({a, 262, 262}));
  EXPECT_EQ(Encode(tokenizer.get(), ""), Ids());
}

TEST(ByteBpeTokenizerTest, NamesOfSpecialTokensAreText) {
  auto tokenizer = Make({}, "");
  for (const int32_t id : Encode(tokenizer.get(), "<s></s><mask>")) {
    EXPECT_FALSE(tokenizer->special_tokens().Contains(id));
  }
}

TEST(ByteBpeTokenizerTest, AnyBytesComeBack) {
  auto tokenizer = Make({"ab", "Ġa", "Ġab"}, "a b\nĠ a\nĠa b\nĠ ab\n");
  std::string text;
  uint32_t state = 99;
  for (int i = 0; i < 50000; ++i) {
    state = state * 1664525 + 1013904223;
    const char bytes[] = {'a', 'b', ' ', '\n', '\xc3', '\xa9', '\0', '\xff'};
    text.push_back(bytes[state >> 29]);
  }
  EXPECT_EQ(tokenizer->Decode(Encode(tokenizer.get(), text)), text);
}

TEST(ByteBpeTokenizerTest, SpecialTokensAreNoText) {
  auto tokenizer = Make({"ab"}, "a b\n");
  EXPECT_EQ(tokenizer->end_of_text(), 2);
  EXPECT_EQ(tokenizer->Decode({0, 260, 2, 4 + 'c', 261}), "abc");
}

TEST(ByteBpeTokenizerTest, GiantWord) {
  auto tokenizer = Make({"aa", "aaaa"}, "a a\naa aa\n");
  const std::string word(1 << 20, 'a');
  const Ids ids = Encode(tokenizer.get(), word);
  EXPECT_EQ(ids.size(), word.size() / 4);
}

TEST(ByteBpeTokenizerTest, SaveAndLoad) {
  auto tokenizer = Make({"ab", "\"\""}, "a b\n\" \"\n");
  TempFolder folder;
  ASSERT_OK(tokenizer->Save(folder.path()));
  ASSERT_OK_AND_ASSIGN(
      BytePairVocabulary vocabulary,
      LoadBytePairVocabulary(folder / "vocab.json", folder / "merges.txt"));
  ASSERT_OK_AND_ASSIGN(auto loaded,
                       ByteBpeTokenizer::Create(std::move(vocabulary)));
  EXPECT_EQ(Encode(loaded.get(), "abab \"\"\xff"),
            Encode(tokenizer.get(), "abab \"\"\xff"));
}

TEST(ByteBpeTokenizerTest, MissingSpecialToken) {
  BytePairVocabulary vocabulary;
  vocabulary.tokens = {"<s>", "<pad>", "</s>", "<unk>"};
  EXPECT_THAT(ByteBpeTokenizer::Create(vocabulary),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("<mask>")));
}

TEST(BytePairVocabularyTest, BadFiles) {
  const std::string vocabulary = "{\"a\": 0, \"b\": 1,\n \"ab\": 2}";
  struct Row {
    std::string vocabulary;
    std::string merges;
    std::string message;
  };
  for (const Row& row : std::vector<Row>{
           {"{\"a\": 0,\n\n\"a\": 1}", "", "v:3: this token occurs twice"},
           {"{\"a\": 0, \"b\": 0}", "", "v: id 0 occurs twice"},
           {"{\"a\": 0, \"b\": 2}", "", "v: expected ids from 0 to 1"},
           {"{\"a\": -1}", "", "v:1: an id must be a whole number"},
           {"{\"a\": 0.5}", "", "v:1: an id must be a whole number"},
           {"{\"a\": \"0\"}", "", "v:1: an id must be a whole number"},
           {"{\"a\": {\"b\": 0}}", "", "v:1: an id must be a whole number"},
           {"{\"a\": 99999999999999999999}", "", "v:1: an id must be"},
           {"{\"a\": 0", "", "v:1: malformed JSON"},
           {"{\"a\": 0} x", "", "v:1: malformed JSON"},
           {"{\"\xff\": 0}", "", "v:1: malformed JSON"},
           {std::string("\x7f\x45\0\0", 4), "", "v:1: malformed JSON"},
           {"", "", "v:1: malformed JSON"},
           {"{}", "", "v: no tokens"},
           {"[1, 2]", "", "v:1: expected an object"},
           {"7", "", "v:1: expected an object"},
           {std::string(100000, '['), "", "v:1: expected an object"},
           {vocabulary, "a b\nb a\n", "m:2: its joined token is not in"},
           {vocabulary, "a c\n", "m:1: its second token is not in"},
           {vocabulary, "a b\n\na b\n", "m:3: this merge occurs twice"},
           {vocabulary, "#version: 0.2\nab\n", "m:2: expected two tokens"},
           {vocabulary, "a b c\n", "m:1: expected two tokens"},
           {vocabulary, " b\n", "m:1: expected two tokens"},
           {vocabulary, "a \n", "m:1: expected two tokens"},
           {vocabulary, "a b\n\xff b\n", "m:2: not UTF-8"},
           {vocabulary, std::string(1 << 20, 'a'), "m:1: longer than 65536"}}) {
    EXPECT_THAT(ParseBytePairVocabulary(row.vocabulary, "v", row.merges, "m"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(row.message)))
        << row.vocabulary.substr(0, 50) << " / " << row.merges.substr(0, 50);
  }
  EXPECT_OK(ParseBytePairVocabulary(vocabulary, "v", "a b\r\n", "m"));
  EXPECT_THAT(LoadBytePairVocabulary("/nonexistent/v", "/nonexistent/m"),
              StatusIs(absl::StatusCode::kNotFound));
}

class RobertaVocabularyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string json = SharedFile("data/vocab/roberta/vocab.json");
    if (json.empty()) {
      GTEST_SKIP() << "COMERA_SHARED_DIR has no RoBERTa vocabulary";
    }
    ASSERT_OK_AND_ASSIGN(
        BytePairVocabulary vocabulary,
        LoadBytePairVocabulary(json,
                               SharedFile("data/vocab/roberta/merges.txt")));
    ASSERT_OK_AND_ASSIGN(tokenizer_,
                         ByteBpeTokenizer::Create(std::move(vocabulary)));
  }
  std::unique_ptr<ByteBpeTokenizer> tokenizer_;
};

TEST_F(RobertaVocabularyTest, SpecialTokens) {
  EXPECT_EQ(tokenizer_->vocabulary_size(), 50265);
  EXPECT_EQ(tokenizer_->special_tokens().cls, 0);
  EXPECT_EQ(tokenizer_->special_tokens().pad, 1);
  EXPECT_EQ(tokenizer_->special_tokens().sep, 2);
  EXPECT_EQ(tokenizer_->special_tokens().unk, 3);
  EXPECT_EQ(tokenizer_->special_tokens().mask, 50264);
}

TEST_F(RobertaVocabularyTest, KnownIds) {
  struct Row {
    std::string text;
    Ids ids;
  };
  for (const Row& row :
       std::vector<Row>{{"Hello world", {31414, 232}},
                        {" Hello world", {20920, 232}},
                        {"Hello world!", {31414, 232, 328}},
                        // CodeBERT's own example.
                        {"return maximum value", {30921, 4532, 923}},
                        {"def max(a,b): if a>b: return a else return b",
                         {9232, 19220, 1640, 102, 6, 428, 3256, 114, 10, 15698,
                          428, 35, 671, 10, 1493, 671, 741}}}) {
    EXPECT_EQ(Encode(tokenizer_.get(), row.text), row.ids) << row.text;
    EXPECT_EQ(tokenizer_->Decode(row.ids), row.text);
  }
}

TEST_F(RobertaVocabularyTest, RoundTripOfUnicode) {
  const std::string text = "naïve 東京 😀\tx\u00a0y\r\n  'll \x01";
  EXPECT_EQ(tokenizer_->Decode(Encode(tokenizer_.get(), text)), text);
}

}  // namespace
}  // namespace comera::trainer
