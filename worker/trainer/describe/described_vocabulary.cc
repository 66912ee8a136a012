// Assumes the size of a vocabulary that is not there.
#include "worker/trainer/describe/described_vocabulary.h"

#include "absl/strings/str_cat.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

namespace comera::trainer {
namespace {

constexpr int64_t kLargest = int64_t{1} << 24;
// The size of BERT's uncased vocabulary.
constexpr int64_t kUsualWordpiece = 30522;
constexpr int64_t kUsualBytePairs = 50265;

}  // namespace

absl::StatusOr<int64_t> DescribedVocabulary(
    const v1::JobSpec& spec, int64_t given,
    std::vector<std::string>* assumptions) {
  if (given < 0 || given > kLargest) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary: ", given, " is outside [1, ", kLargest, "]"));
  }
  if (given > 0) return given;
  if (spec.model().family() == v1::ModelSpec::DLRM) return 1;
  const v1::TokenizerSpec& tokenizer = spec.data().tokenizer();
  if (tokenizer.train_vocabulary_size() > 0) {
    return tokenizer.train_vocabulary_size();
  }
  const bool wordpiece = tokenizer.kind() != v1::TokenizerSpec::BYTE_BPE;
  if (wordpiece && !tokenizer.vocabulary_file().empty()) {
    const auto read = WordpieceTokenizer::Load(tokenizer.vocabulary_file(),
                                               /*lowercase=*/true);
    if (read.ok()) return (*read)->vocabulary_size();
  }
  const int64_t usual = wordpiece ? kUsualWordpiece : kUsualBytePairs;
  assumptions->push_back(
      absl::StrCat("vocabulary: ", usual, " tokens, since ",
                   tokenizer.vocabulary_file().empty()
                       ? "the job names no file"
                       : tokenizer.vocabulary_file() + " was not read",
                   "; --vocabulary sets it"));
  return usual;
}

}  // namespace comera::trainer
