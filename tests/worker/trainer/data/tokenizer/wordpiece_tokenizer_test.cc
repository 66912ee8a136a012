// Tests WordPiece tokens.
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Line n - 1 is id n: [PAD] 0 ... want 5.
constexpr char kVocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwant\n##want\n##ed\nwa\nun\nrunn\n"
    "##ing\n,\nlow\n##est\n\xe5\x8d\x9a\n";

Ids Encode(Tokenizer* tokenizer, absl::string_view text) {
  Ids ids;
  tokenizer->Encode(text, &ids);
  return ids;
}

std::unique_ptr<WordpieceTokenizer> Small() {
  auto tokenizer = WordpieceTokenizer::Parse(kVocabulary, "vocab.txt", true);
  EXPECT_OK(tokenizer);
  return *std::move(tokenizer);
}

TEST(WordpieceTokenizerTest, LongestPieceFirst) {
  auto tokenizer = Small();
  EXPECT_EQ(Encode(tokenizer.get(), "UNwanted,running"),
            Ids({9, 6, 7, 12, 10, 11}));
  EXPECT_EQ(Encode(tokenizer.get(), "unwanted running"),
            Ids({9, 6, 7, 10, 11}));
  EXPECT_EQ(Encode(tokenizer.get(), "unwantedX running"), Ids({1, 10, 11}));
  EXPECT_EQ(Encode(tokenizer.get(), "lowest"), Ids({13, 14}));
  EXPECT_EQ(Encode(tokenizer.get(), ""), Ids());
  EXPECT_EQ(Encode(tokenizer.get(), "want\xe5\x8d\x9awant"), Ids({5, 15, 5}));
  EXPECT_EQ(Encode(tokenizer.get(), "[CLS]"), Ids({1, 1, 1}));
}

TEST(WordpieceTokenizerTest, CacheGivesTheSame) {
  auto tokenizer = Small();
  const Ids once = Encode(tokenizer.get(), "unwanted x lowest");
  EXPECT_EQ(Encode(tokenizer.get(), "unwanted x lowest"), once);
}

TEST(WordpieceTokenizerTest, OneHundredCharacters) {
  std::string vocabulary = kVocabulary;
  vocabulary += "a\n##a\n";
  ASSERT_OK_AND_ASSIGN(auto tokenizer,
                       WordpieceTokenizer::Parse(vocabulary, "v", true));
  EXPECT_EQ(Encode(tokenizer.get(), std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(Encode(tokenizer.get(), std::string(101, 'a')), Ids({1}));
}

TEST(WordpieceTokenizerTest, SpecialTokens) {
  auto tokenizer = Small();
  EXPECT_EQ(tokenizer->special_tokens().pad, 0);
  EXPECT_EQ(tokenizer->special_tokens().unk, 1);
  EXPECT_EQ(tokenizer->special_tokens().cls, 2);
  EXPECT_EQ(tokenizer->special_tokens().sep, 3);
  EXPECT_EQ(tokenizer->special_tokens().mask, 4);
  EXPECT_EQ(tokenizer->vocabulary_size(), 16);
  EXPECT_TRUE(tokenizer->has_segments());
}

TEST(WordpieceTokenizerTest, DecodesToWords) {
  auto tokenizer = Small();
  EXPECT_EQ(tokenizer->end_of_text(), 3);
  EXPECT_EQ(tokenizer->Decode(Encode(tokenizer.get(), "UNwanted,  running")),
            "unwanted , running");
  EXPECT_EQ(tokenizer->Decode({2, 6, 11, 3}), "wanting");
}

TEST(WordpieceTokenizerTest, SaveWritesTheSameVocabulary) {
  TempFolder folder;
  ASSERT_OK(Small()->Save(folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::string saved, ReadFile(folder / "vocab.txt"));
  EXPECT_EQ(saved, kVocabulary);
}

TEST(WordpieceTokenizerTest, BadVocabularies) {
  const std::string good = kVocabulary;
  struct Row {
    std::string contents;
    std::string message;
  };
  for (const Row& row : std::vector<Row>{
           {good + "want\n", "v:17: this token occurs twice"},
           {good + "##ed\n", "v:17: this token occurs twice"},
           {good + "\nx\n", "v:17: empty line"},
           {good + "x\xff\n", "v:17: not UTF-8"},
           {good + std::string(5000, 'x') + "\n", "v:17: longer than 1024"},
           {std::string(1 << 20, '\xff'), "v:1: longer than 1024"},
           {"[PAD]\n[UNK]\n[CLS]\n[SEP]\n", "lacks the special token [MASK]"},
           {"", "lacks the special token [PAD]"}}) {
    EXPECT_THAT(WordpieceTokenizer::Parse(row.contents, "v", true),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(row.message)));
  }
  EXPECT_THAT(WordpieceTokenizer::Load("/nonexistent/vocab.txt", true),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(WordpieceTokenizer::Load("/dev/zero", true),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

class BertVocabularyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string file = SharedFile("data/vocab/bert-uncased/vocab.txt");
    if (file.empty())
      GTEST_SKIP() << "COMERA_SHARED_DIR has no BERT vocabulary";
    ASSERT_OK_AND_ASSIGN(tokenizer_, WordpieceTokenizer::Load(file, true));
  }
  std::unique_ptr<WordpieceTokenizer> tokenizer_;
};

TEST_F(BertVocabularyTest, KnownIds) {
  EXPECT_EQ(tokenizer_->vocabulary_size(), 30522);
  EXPECT_EQ(tokenizer_->special_tokens().mask, 103);
  struct Row {
    std::string text;
    Ids ids;
  };
  for (const Row& row : std::vector<Row>{
           {"Hello world", {7592, 2088}},
           {"Hello, world!", {7592, 1010, 2088, 999}},
           {"H\u00e9ll\u00f4 W\u00f6rld", {7592, 2088}},
           {"Who was Jim Henson ?", {2040, 2001, 3958, 27227, 1029}},
           {"Replace me by any text you'd like.",
            {5672, 2033, 2011, 2151, 3793, 2017, 1005, 1040, 2066, 1012}},
           {"unaffable", {14477, 20961, 3468}},
           {"the cat sat on the mat", {1996, 4937, 2938, 2006, 1996, 13523}},
           {"\u535a\u535a", {1786, 1786}}}) {
    EXPECT_EQ(Encode(tokenizer_.get(), row.text), row.ids) << row.text;
  }
}

}  // namespace
}  // namespace comera::trainer
