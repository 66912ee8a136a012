// Tests the tokenizers that jobs name.
#include "worker/trainer/data/tokenizer/tokenizer_source.h"

#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/data/tokenizer/small_files.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Texts that all are of the training part, and how often they were read.
class FakeCorpus : public Corpus {
 public:
  explicit FakeCorpus(std::vector<std::string> texts)
      : texts_(std::move(texts)) {}
  absl::Status Read(Part part,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override {
    EXPECT_EQ(part, Part::kTrain);
    ++reads_;
    for (const std::string& text : texts_) {
      CorpusText out;
      out.first = text;
      if (const absl::Status status = visit(out); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const std::string& fingerprint() const override { return fingerprint_; }
  int reads() const { return reads_; }

 private:
  const std::vector<std::string> texts_;
  const std::string fingerprint_ = "fake";
  mutable int reads_ = 0;
};

class TokenizerSourceTest : public ::testing::Test {
 protected:
  absl::StatusOr<OpenedTokenizer> Open(const v1::TokenizerSpec& spec) {
    return OpenTokenizer(spec, corpus_, &cache_, {});
  }
  Ids Encode(const OpenedTokenizer& opened, absl::string_view text) {
    Ids ids;
    opened.tokenizer->Encode(text, &ids);
    return ids;
  }

  TempFolder folder_;
  FakeCorpus corpus_{{"ba", "\u00e9a"}};
  FileCache cache_{folder_ / "cache", {}};
};

TEST_F(TokenizerSourceTest, CharactersOfTheCorpus) {
  v1::TokenizerSpec spec;
  spec.set_kind(v1::TokenizerSpec::CHARACTERS);
  ASSERT_OK_AND_ASSIGN(OpenedTokenizer opened, Open(spec));
  EXPECT_EQ(opened.tokenizer->vocabulary_size(), 5);
  EXPECT_EQ(Encode(opened, "ab\u00e9?"), Ids({2, 3, 4, 0}));
  EXPECT_THAT(opened.fingerprint, HasSubstr("fake"));
  ASSERT_OK_AND_ASSIGN(const OpenedTokenizer again, Open(spec));
  EXPECT_EQ(corpus_.reads(), 1);
  EXPECT_EQ(Encode(again, "ab\u00e9?"), Ids({2, 3, 4, 0}));
  EXPECT_EQ(again.fingerprint, opened.fingerprint);
}

TEST_F(TokenizerSourceTest, CharactersOfAFile) {
  v1::TokenizerSpec spec;
  spec.set_kind(v1::TokenizerSpec::CHARACTERS);
  spec.set_vocabulary_file(
      folder_.Write("characters.json", "[\"<unk>\", \"</s>\", \"x\"]"));
  ASSERT_OK_AND_ASSIGN(const OpenedTokenizer opened, Open(spec));
  EXPECT_EQ(Encode(opened, "xa"), Ids({2, 0}));
  EXPECT_EQ(corpus_.reads(), 0);
}

TEST_F(TokenizerSourceTest, HuggingFaceAndSentencePiece) {
  v1::TokenizerSpec spec;
  spec.set_kind(v1::TokenizerSpec::HUGGING_FACE);
  spec.set_tokenizer_file(
      folder_.Write("any.json", SmallTokenizerJson({{"b", "a"}}).dump()));
  ASSERT_OK_AND_ASSIGN(const OpenedTokenizer json, Open(spec));
  EXPECT_EQ(Encode(json, "ba"), Ids({256}));
  EXPECT_THAT(json.fingerprint, HasSubstr(spec.tokenizer_file()));

  spec.set_kind(v1::TokenizerSpec::SENTENCEPIECE);
  spec.set_tokenizer_file(folder_.Write(
      "any.model",
      SmallSentencePieceModel({"ba", "a", "b", "\u2581"}).SerializeAsString()));
  ASSERT_OK_AND_ASSIGN(const OpenedTokenizer model, Open(spec));
  EXPECT_EQ(Encode(model, "ba"), Ids({6, 3}));
  EXPECT_NE(model.fingerprint, json.fingerprint);
}

TEST_F(TokenizerSourceTest, TrainedVocabulary) {
  v1::TokenizerSpec spec;
  spec.set_kind(v1::TokenizerSpec::BYTE_BPE);
  spec.set_train_vocabulary_size(300);
  ASSERT_OK_AND_ASSIGN(const OpenedTokenizer opened, Open(spec));
  EXPECT_EQ(opened.tokenizer->Decode(Encode(opened, "any \u00e9")),
            "any \u00e9");
  spec.set_train_vocabulary_size(100);
  EXPECT_THAT(Open(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("train_vocabulary_size")));
}

TEST_F(TokenizerSourceTest, FilesThatTheSpecLacks) {
  for (const auto& [kind, message] :
       {std::pair(v1::TokenizerSpec::KIND_UNSPECIFIED, "kind: missing"),
        std::pair(v1::TokenizerSpec::WORDPIECE, "vocabulary_file"),
        std::pair(v1::TokenizerSpec::HUGGING_FACE, "tokenizer_file"),
        std::pair(v1::TokenizerSpec::SENTENCEPIECE, "tokenizer_file")}) {
    v1::TokenizerSpec spec;
    spec.set_kind(kind);
    EXPECT_THAT(Open(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr(message)));
  }
  v1::TokenizerSpec spec;
  spec.set_kind(v1::TokenizerSpec::BYTE_BPE);
  spec.set_vocabulary_file("vocab.json");
  EXPECT_THAT(Open(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("merges_file")));
}

TEST_F(TokenizerSourceTest, FilesThatAreAbsent) {
  v1::TokenizerSpec spec;
  for (const auto kind :
       {v1::TokenizerSpec::HUGGING_FACE, v1::TokenizerSpec::SENTENCEPIECE}) {
    spec.set_kind(kind);
    spec.set_tokenizer_file(folder_ / "absent");
    EXPECT_THAT(Open(spec), StatusIs(absl::StatusCode::kNotFound));
  }
}

}  // namespace
}  // namespace comera::trainer
