// Tests that a saved tokenizer of any kind is found again.
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/data/tokenizer/small_files.h"
#include "worker/trainer/data/tokenizer/bpe_trainer.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"
#include "worker/trainer/data/tokenizer/code_point_tokenizer.h"
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = "abab ba \u00e9 Ab\n";

// A small tokenizer of each kind.
absl::StatusOr<std::unique_ptr<Tokenizer>> Make(v1::TokenizerSpec::Kind kind) {
  switch (kind) {
    case v1::TokenizerSpec::WORDPIECE:
      return WordpieceTokenizer::Parse(
          "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##ab\nAb\nba\n", "v",
          /*lowercase=*/false);
    case v1::TokenizerSpec::BYTE_BPE: {
      WordCounts words;
      words.Add("ab ab ba");
      auto vocabulary = TrainBytePairVocabulary(words, 262, {});
      if (!vocabulary.ok()) return vocabulary.status();
      return ByteBpeTokenizer::Create(*std::move(vocabulary));
    }
    case v1::TokenizerSpec::CHARACTERS: {
      CodePointSet characters;
      characters.Add("ab \u00e9");
      return CodePointTokenizer::Parse(CodePointTokenizer::FileOf(characters),
                                       "c");
    }
    case v1::TokenizerSpec::HUGGING_FACE:
      return HuggingFaceTokenizer::Parse(
          SmallTokenizerJson({{"a", "b"}}).dump(), "t");
    default:
      return SentencePieceTokenizer::Parse(
          SmallSentencePieceModel({"ab", "a", "b", "\u2581"})
              .SerializeAsString(),
          "m");
  }
}

TEST(SavedTokenizerTest, EveryKind) {
  for (const auto kind :
       {v1::TokenizerSpec::WORDPIECE, v1::TokenizerSpec::BYTE_BPE,
        v1::TokenizerSpec::CHARACTERS, v1::TokenizerSpec::HUGGING_FACE,
        v1::TokenizerSpec::SENTENCEPIECE}) {
    SCOPED_TRACE(v1::TokenizerSpec::Kind_Name(kind));
    ASSERT_OK_AND_ASSIGN(const auto tokenizer, Make(kind));
    TempFolder folder;
    ASSERT_OK(tokenizer->Save(folder.path()));
    for (const auto& file :
         std::filesystem::directory_iterator(folder.path())) {
      EXPECT_TRUE(
          absl::c_linear_search(kTokenizerFiles, file.path().filename()))
          << file.path();
    }
    ASSERT_OK_AND_ASSIGN(const v1::TokenizerSpec spec,
                         FindSavedTokenizer(folder.path()));
    EXPECT_EQ(spec.kind(), kind);
    ASSERT_OK_AND_ASSIGN(const auto loaded, LoadSavedTokenizer(folder.path()));
    EXPECT_EQ(loaded->vocabulary_size(), tokenizer->vocabulary_size());
    EXPECT_EQ(loaded->end_of_text(), tokenizer->end_of_text());
    EXPECT_TRUE(loaded->end_of_text().has_value());
    std::vector<int32_t> expected, ids;
    tokenizer->Encode(kText, &expected);
    loaded->Encode(kText, &ids);
    EXPECT_FALSE(ids.empty());
    EXPECT_EQ(ids, expected);
  }
}

TEST(SavedTokenizerTest, LowerCase) {
  TempFolder folder;
  folder.Write("vocab.txt", "[PAD]\n");
  ASSERT_OK_AND_ASSIGN(v1::TokenizerSpec spec,
                       FindSavedTokenizer(folder.path()));
  EXPECT_TRUE(spec.lowercase());
  folder.Write("tokenizer_config.json", "{\"do_lower_case\": false}");
  ASSERT_OK_AND_ASSIGN(spec, FindSavedTokenizer(folder.path()));
  EXPECT_FALSE(spec.lowercase());
  folder.Write("tokenizer_config.json", "{");
  EXPECT_THAT(FindSavedTokenizer(folder.path()),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(SavedTokenizerTest, NoneIsThere) {
  TempFolder folder;
  EXPECT_THAT(
      LoadSavedTokenizer(folder.path()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("tokenizer.model")));
}

}  // namespace
}  // namespace comera::trainer
