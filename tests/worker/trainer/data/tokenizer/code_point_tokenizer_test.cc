// Tests characters as tokens.
#include "worker/trainer/data/tokenizer/code_point_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

Ids Encode(Tokenizer* tokenizer, absl::string_view text) {
  Ids ids;
  tokenizer->Encode(text, &ids);
  return ids;
}

// The tokenizer of the characters of `text`.
std::unique_ptr<CodePointTokenizer> Of(absl::string_view text) {
  CodePointSet characters;
  characters.Add(text);
  auto tokenizer =
      CodePointTokenizer::Parse(CodePointTokenizer::FileOf(characters), "c");
  EXPECT_OK(tokenizer);
  return *std::move(tokenizer);
}

TEST(CodePointTokenizerTest, SortedByCodePoint) {
  auto tokenizer = Of("b\u00e9a\U0001F600 \nab\u6771");
  // <unk> </s> \n space a b e-acute U+6771 U+1F600
  EXPECT_EQ(tokenizer->vocabulary_size(), 9);
  EXPECT_EQ(Encode(tokenizer.get(), "\n ab\u00e9\u6771\U0001F600"),
            Ids({2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(tokenizer->Token(6), "\u00e9");
  EXPECT_EQ(tokenizer->end_of_text(), 1);
  EXPECT_FALSE(tokenizer->has_segments());
}

TEST(CodePointTokenizerTest, Unknown) {
  auto tokenizer = Of("ab");
  EXPECT_EQ(Encode(tokenizer.get(), "a?b\u00e9\xff"), Ids({2, 0, 3, 0, 0}));
  EXPECT_EQ(Encode(tokenizer.get(), "</s>a"), Ids({0, 0, 0, 0, 2}));
  EXPECT_EQ(tokenizer->special_tokens().unk, 0);
  EXPECT_EQ(tokenizer->special_tokens().mask, -1);
  EXPECT_EQ(tokenizer->Decode({2, 0, 3, 1}), "a\ufffdb");
}

TEST(CodePointTokenizerTest, DecodingGivesTheTextBack) {
  const std::string text =
      absl::StrCat("na\u00efve \u6771\u4eac \"\\ \U0001F600",
                   absl::string_view("\0\t\x7f", 3));
  auto tokenizer = Of(text);
  EXPECT_EQ(tokenizer->Decode(Encode(tokenizer.get(), text)), text);
}

TEST(CodePointTokenizerTest, EmptyCorpus) {
  auto tokenizer = Of("");
  EXPECT_EQ(tokenizer->vocabulary_size(), 2);
  EXPECT_EQ(Encode(tokenizer.get(), "a"), Ids({0}));
}

TEST(CodePointTokenizerTest, SaveAndLoad) {
  auto tokenizer = Of("x\"\\\u6771");
  TempFolder folder;
  ASSERT_OK(tokenizer->Save(folder.path()));
  ASSERT_OK_AND_ASSIGN(auto loaded,
                       CodePointTokenizer::Load(folder / "characters.json"));
  EXPECT_EQ(Encode(loaded.get(), "\u6771\\\"xy"),
            Encode(tokenizer.get(), "\u6771\\\"xy"));
}

TEST(CodePointTokenizerTest, BadFiles) {
  struct Row {
    std::string contents;
    std::string message;
  };
  for (const Row& row : std::vector<Row>{
           {"", "c: must be a list"},
           {"{}", "c: must be a list"},
           {"[\"<unk>\", \"</s>\"", "c: must be a list"},
           {"[]", "c: must begin with <unk> and </s>"},
           {"[\"<unk>\"]", "c: must begin with <unk> and </s>"},
           {"[\"a\", \"b\"]", "c: must begin with <unk> and </s>"},
           {"[\"<unk>\", \"</s>\", 5]", "c: token 2 is not a text"},
           {"[\"<unk>\", \"</s>\", \"\"]", "c: token 2 is not a character"},
           {"[\"<unk>\", \"</s>\", \"ab\"]", "c: token 2 is not a character"},
           {"[\"<unk>\", \"</s>\", \"b\", \"a\"]", "c: token 3 is not"},
           {"[\"<unk>\", \"</s>\", \"a\", \"a\"]", "c: token 3 is not"},
           {"[\"<unk>\", \"</s>\", \"\xff\"]", "c: must be a list"},
           {std::string(100000, '['), "c: must be a list"}}) {
    EXPECT_THAT(CodePointTokenizer::Parse(row.contents, "c"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(row.message)))
        << row.contents.substr(0, 50);
  }
  EXPECT_THAT(CodePointTokenizer::Load("/nonexistent/characters.json"),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::trainer
