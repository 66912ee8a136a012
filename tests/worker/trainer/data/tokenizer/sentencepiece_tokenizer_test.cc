// Tests the pieces of SentencePiece models.
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/data/tokenizer/small_files.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.pb.h"

namespace comera::trainer {
namespace {

using sentencepiece::ModelProto;
using sentencepiece::SentencePiece;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

std::unique_ptr<SentencePieceTokenizer> Make(const ModelProto& model) {
  auto tokenizer =
      SentencePieceTokenizer::Parse(model.SerializeAsString(), "m");
  EXPECT_OK(tokenizer);
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

Ids Encode(Tokenizer* tokenizer, absl::string_view text) {
  Ids ids;
  tokenizer->Encode(text, &ids);
  return ids;
}

// Ids from 3 on: ab, space and a, bc, space, a, b, c, two spaces.
ModelProto Small() {
  return SmallSentencePieceModel(
      {"ab", "\u2581a", "bc", "\u2581", "a", "b", "c", "\u2581\u2581"});
}

// Pieces of all bytes behind the others; their first id.
int32_t AddBytes(ModelProto* model) {
  const int32_t first = model->pieces_size();
  for (int byte = 0; byte < 256; ++byte) {
    SentencePiece* const piece = model->add_pieces();
    piece->set_piece(absl::StrFormat("<0x%02X>", byte));
    piece->set_type(SentencePiece::BYTE);
  }
  model->mutable_trainer_spec()->set_byte_fallback(true);
  return first;
}

TEST(SentencePieceTokenizerTest, LargestScoreFirst) {
  auto tokenizer = Make(Small());
  // "ab" goes before "space a".
  EXPECT_EQ(Encode(tokenizer.get(), "ab"), Ids({6, 3}));
  EXPECT_EQ(Encode(tokenizer.get(), "a"), Ids({4}));
  EXPECT_EQ(Encode(tokenizer.get(), "abc"), Ids({6, 3, 9}));
  EXPECT_EQ(Encode(tokenizer.get(), "bc"), Ids({6, 5}));
  EXPECT_EQ(Encode(tokenizer.get(), "c  c"), Ids({6, 9, 10, 9}));
  EXPECT_EQ(Encode(tokenizer.get(), ""), Ids());
  EXPECT_EQ(tokenizer->vocabulary_size(), 11);
  EXPECT_EQ(tokenizer->Token(4), "\u2581a");
}

TEST(SentencePieceTokenizerTest, EqualScoresLeftmostFirst) {
  ModelProto model = SmallSentencePieceModel({"a", "aa", "\u2581"});
  for (SentencePiece& piece : *model.mutable_pieces()) piece.set_score(0);
  EXPECT_EQ(Encode(Make(model).get(), "aaa"), Ids({5, 4, 3}));
}

TEST(SentencePieceTokenizerTest, SpecialTokens) {
  ModelProto model = Small();
  auto tokenizer = Make(model);
  EXPECT_EQ(tokenizer->special_tokens().unk, 0);
  EXPECT_EQ(tokenizer->special_tokens().cls, 1);
  EXPECT_EQ(tokenizer->special_tokens().sep, 2);
  EXPECT_EQ(tokenizer->special_tokens().mask, -1);
  EXPECT_EQ(tokenizer->end_of_text(), 2);
  // Their names are text.
  for (const int32_t id : Encode(tokenizer.get(), "<s></s>")) {
    EXPECT_NE(id, 1);
    EXPECT_NE(id, 2);
  }
  model.mutable_trainer_spec()->set_eos_piece("<s>");
  EXPECT_EQ(Make(model)->end_of_text(), 1);
  model.mutable_trainer_spec()->set_eos_piece("<end>");
  EXPECT_EQ(Make(model)->end_of_text(), std::nullopt);
}

TEST(SentencePieceTokenizerTest, UnknownCharacters) {
  auto tokenizer = Make(Small());
  EXPECT_EQ(Encode(tokenizer.get(), "a??\u00e9b"), Ids({4, 0, 8}));
  EXPECT_EQ(Encode(tokenizer.get(), "?b?"), Ids({6, 0, 8, 0}));
  EXPECT_EQ(tokenizer->Decode({4, 0, 8}), "a \u2047 b");
}

TEST(SentencePieceTokenizerTest, BytesOfUnknownCharacters) {
  ModelProto model = Small();
  const int32_t bytes = AddBytes(&model);
  auto tokenizer = Make(model);
  EXPECT_EQ(Encode(tokenizer.get(), "a\u00e9"),
            Ids({4, bytes + 0xc3, bytes + 0xa9}));
  // Each byte that is not UTF-8 becomes U+FFFD.
  EXPECT_EQ(Encode(tokenizer.get(), "a\xff"),
            Ids({4, bytes + 0xef, bytes + 0xbf, bytes + 0xbd}));
  const std::string text =
      absl::StrCat("  ab \u6771\u4eac\n\t \U0001F600 ",
                   absl::string_view("\0c", 2), " <0x41> <s> ");
  EXPECT_EQ(tokenizer->Decode(Encode(tokenizer.get(), text)), text);
  EXPECT_EQ(tokenizer->Decode({bytes + 0xc3, 1, 2}), "\xc3");
}

TEST(SentencePieceTokenizerTest, UserDefinedPieces) {
  ModelProto model = Small();
  SentencePiece* const piece = model.add_pieces();  // 11
  piece->set_piece("ab?");
  piece->set_type(SentencePiece::USER_DEFINED);
  auto tokenizer = Make(model);
  EXPECT_EQ(Encode(tokenizer.get(), "aab?c"), Ids({4, 11, 9}));
  EXPECT_EQ(tokenizer->Decode({4, 11, 9}), "aab?c");
}

TEST(SentencePieceTokenizerTest, UnusedPiecesAreCutAgain) {
  ModelProto model = Small();
  model.mutable_pieces(3)->set_type(SentencePiece::UNUSED);  // "ab"
  EXPECT_EQ(Encode(Make(model).get(), "ab"), Ids({6, 7, 8}));
}

TEST(SentencePieceTokenizerTest, Spaces) {
  ModelProto model = Small();
  sentencepiece::NormalizerSpec& normalizer = *model.mutable_normalizer_spec();
  normalizer.set_add_dummy_prefix(false);
  EXPECT_EQ(Encode(Make(model).get(), "a  b "), Ids({7, 10, 8, 6}));
  normalizer.set_remove_extra_whitespaces(true);
  EXPECT_EQ(Encode(Make(model).get(), "  a   b  "), Ids({7, 6, 8}));
  normalizer.set_add_dummy_prefix(true);
  auto tokenizer = Make(model);
  EXPECT_EQ(Encode(tokenizer.get(), "  a   b  "), Ids({4, 6, 8}));
  EXPECT_EQ(Encode(tokenizer.get(), "   "), Ids());
  EXPECT_EQ(tokenizer->Decode({4, 6, 8}), "a b");
}

TEST(SentencePieceTokenizerTest, Rules) {
  ModelProto model = Small();
  model.mutable_normalizer_spec()->set_precompiled_charsmap(
      SmallCharacterMap({{"A", "a"}, {"\u3000", " "}, {"x", ""}, {"y", "ab"}}));
  auto tokenizer = Make(model);
  EXPECT_EQ(Encode(tokenizer.get(), "Ax\u3000yx"), Ids({4, 6, 3}));
}

TEST(SentencePieceTokenizerTest, UnigramTakesTheLargestSum) {
  ModelProto model = SmallSentencePieceModel({"\u2581", "a", "b", "ab", "ba"});
  model.mutable_trainer_spec()->set_model_type(
      sentencepiece::TrainerSpec::UNIGRAM);
  const float scores[] = {-1, -3, -3, -5, -2};
  for (int i = 0; i < 5; ++i) model.mutable_pieces(3 + i)->set_score(scores[i]);
  EXPECT_EQ(Encode(Make(model).get(), "ab"), Ids({3, 6}));
  EXPECT_EQ(Encode(Make(model).get(), "aba"), Ids({3, 4, 7}));
  EXPECT_EQ(Encode(Make(model).get(), "abab"), Ids({3, 4, 7, 5}));
  EXPECT_EQ(Encode(Make(model).get(), "a??b"), Ids({3, 4, 0, 5}));
  // A user-defined piece counts as the best characters, but for a little.
  model.mutable_pieces(6)->set_type(SentencePiece::USER_DEFINED);
  EXPECT_EQ(Encode(Make(model).get(), "abab"), Ids({3, 6, 6}));
  const int32_t bytes = AddBytes(&model);
  EXPECT_EQ(Encode(Make(model).get(), "a?"), Ids({3, 4, bytes + '?'}));
}

TEST(SentencePieceTokenizerTest, GiantTexts) {
  ModelProto model = SmallSentencePieceModel({"aaaa", "aa", "a", "\u2581"});
  for (const auto type :
       {sentencepiece::TrainerSpec::BPE, sentencepiece::TrainerSpec::UNIGRAM}) {
    model.mutable_trainer_spec()->set_model_type(type);
    auto tokenizer = Make(model);
    const std::string text(1 << 19, 'a');
    const Ids ids = Encode(tokenizer.get(), text);
    EXPECT_LT(ids.size(), text.size() / 4 + 50);
    EXPECT_EQ(tokenizer->Decode(ids), text);
  }
}

TEST(SentencePieceTokenizerTest, SaveKeepsTheFile) {
  const std::string contents = Small().SerializeAsString();
  ASSERT_OK_AND_ASSIGN(auto tokenizer,
                       SentencePieceTokenizer::Parse(contents, "m"));
  TempFolder folder;
  ASSERT_OK(tokenizer->Save(folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::string saved,
                       ReadFile(folder / "tokenizer.model"));
  EXPECT_EQ(saved, contents);
  ASSERT_OK(SentencePieceTokenizer::Load(folder / "tokenizer.model"));
}

// A change of the small model, and the message that it is refused with.
struct Refusal {
  std::function<void(ModelProto*)> change;
  absl::StatusCode code;
  std::string message;
};

TEST(SentencePieceTokenizerTest, Refusals) {
  constexpr auto kUnsupported = absl::StatusCode::kInvalidArgument;
  constexpr auto kMalformed = absl::StatusCode::kDataLoss;
  const std::vector<Refusal> refusals = {
      {[](ModelProto* m) {
         m->mutable_trainer_spec()->set_model_type(
             sentencepiece::TrainerSpec::WORD);
       },
       kUnsupported, "m: trainer_spec.model_type: WORD is not supported"},
      {[](ModelProto* m) {
         m->mutable_trainer_spec()->set_treat_whitespace_as_suffix(true);
       },
       kUnsupported, "m: trainer_spec.treat_whitespace_as_suffix"},
      {[](ModelProto* m) {
         m->mutable_denormalizer_spec()->set_precompiled_charsmap("x");
       },
       kUnsupported, "m: denormalizer_spec"},
      {[](ModelProto* m) { m->clear_pieces(); }, kMalformed,
       "m: pieces: none is unknown"},
      {[](ModelProto* m) {
         m->mutable_pieces(5)->set_type(SentencePiece::UNKNOWN);
       },
       kMalformed, "m: pieces[5]: there are two unknown pieces"},
      {[](ModelProto* m) { m->mutable_pieces(5)->set_piece(""); }, kMalformed,
       "m: pieces[5]: must be UTF-8"},
      {[](ModelProto* m) {
         m->mutable_pieces(5)->set_piece(std::string(8000, 'x'));
       },
       kMalformed, "m: pieces[5]: must be UTF-8"},
      {[](ModelProto* m) { m->mutable_pieces(5)->set_piece("\xff"); },
       kMalformed, "m: pieces[5]: must be UTF-8"},
      {[](ModelProto* m) { m->mutable_pieces(5)->set_piece("ab"); }, kMalformed,
       "m: pieces[5]: this piece occurs twice"},
      {[](ModelProto* m) {
         m->mutable_pieces(5)->set_score(
             std::numeric_limits<float>::quiet_NaN());
       },
       kMalformed, "m: pieces[5]: the score is not finite"},
      {[](ModelProto* m) {
         m->mutable_pieces(5)->set_type(SentencePiece::BYTE);
       },
       kMalformed, "m: pieces[5]: a byte must be of the form <0x41>"},
      {[](ModelProto* m) {
         m->mutable_trainer_spec()->set_byte_fallback(true);
       },
       kMalformed, "m: pieces: none is byte 0"},
      {[](ModelProto* m) {
         m->mutable_trainer_spec()->set_unk_surface(std::string(9000, 'x'));
       },
       kMalformed, "m: trainer_spec.unk_surface"},
      {[](ModelProto* m) {
         m->mutable_normalizer_spec()->set_precompiled_charsmap("x");
       },
       kMalformed, "m: normalizer_spec.precompiled_charsmap"},
  };
  for (const Refusal& refusal : refusals) {
    ModelProto model = Small();
    refusal.change(&model);
    EXPECT_THAT(SentencePieceTokenizer::Parse(model.SerializeAsString(), "m"),
                StatusIs(refusal.code, HasSubstr(refusal.message)));
  }
}

TEST(SentencePieceTokenizerTest, MalformedFiles) {
  const std::string good = Small().SerializeAsString();
  for (const std::string& contents :
       {good.substr(0, good.size() - 1), std::string(100, '\xff'),
        std::string("vocab.txt\n")}) {
    EXPECT_THAT(SentencePieceTokenizer::Parse(contents, "m"),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("m: not a SentencePiece model")));
  }
  EXPECT_THAT(SentencePieceTokenizer::Parse("", "m"),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(SentencePieceTokenizer::Load("/nonexistent/tokenizer.model"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(SentencePieceTokenizer::Load("/dev/zero"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// A text of many parts that are segmented by themselves.
TEST(SentencePieceTokenizerTest, LongTextsComeBack) {
  ModelProto model = Small();
  AddBytes(&model);
  auto tokenizer = Make(model);
  std::string text;
  uint32_t state = 3;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525 + 1013904223;
    const char* const parts[] = {"a",  "b", "c",      " ",
                                 "\n", "?", "\u00e9", "\u2581?"};
    text += parts[state >> 29];
  }
  const std::string written = absl::StrReplaceAll(text, {{"\u2581", " "}});
  EXPECT_EQ(tokenizer->Decode(Encode(tokenizer.get(), text)), written);
}

}  // namespace
}  // namespace comera::trainer
