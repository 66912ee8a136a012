// Loads a tokenizer of any kind from its files.
#include "worker/trainer/data/tokenizer/load_tokenizer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/code_point_tokenizer.h"
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

namespace comera::trainer {
namespace {

absl::Status CheckNamed(const v1::TokenizerSpec& spec, const char* field,
                        const std::string& file) {
  if (!file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.tokenizer.", field, ": ",
                   v1::TokenizerSpec::Kind_Name(spec.kind()), " needs one"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const v1::TokenizerSpec& spec) {
  switch (spec.kind()) {
    case v1::TokenizerSpec::WORDPIECE: {
      RETURN_IF_ERROR(
          CheckNamed(spec, "vocabulary_file", spec.vocabulary_file()));
      const bool lowercase = !spec.has_lowercase() || spec.lowercase();
      return WordpieceTokenizer::Load(spec.vocabulary_file(), lowercase);
    }
    case v1::TokenizerSpec::BYTE_BPE: {
      if (spec.vocabulary_file().empty() || spec.merges_file().empty()) {
        return absl::InvalidArgumentError(
            "data.tokenizer: BYTE_BPE needs both vocabulary_file and "
            "merges_file, or neither and train_vocabulary_size");
      }
      ASSIGN_OR_RETURN(
          BytePairVocabulary vocabulary,
          LoadBytePairVocabulary(spec.vocabulary_file(), spec.merges_file()));
      return ByteBpeTokenizer::Create(std::move(vocabulary));
    }
    case v1::TokenizerSpec::CHARACTERS:
      RETURN_IF_ERROR(
          CheckNamed(spec, "vocabulary_file", spec.vocabulary_file()));
      return CodePointTokenizer::Load(spec.vocabulary_file());
    case v1::TokenizerSpec::HUGGING_FACE:
      RETURN_IF_ERROR(
          CheckNamed(spec, "tokenizer_file", spec.tokenizer_file()));
      return HuggingFaceTokenizer::Load(spec.tokenizer_file());
    case v1::TokenizerSpec::SENTENCEPIECE:
      RETURN_IF_ERROR(
          CheckNamed(spec, "tokenizer_file", spec.tokenizer_file()));
      return SentencePieceTokenizer::Load(spec.tokenizer_file());
    default:
      return absl::InvalidArgumentError("data.tokenizer.kind: missing");
  }
}

}  // namespace comera::trainer
