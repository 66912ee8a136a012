// Opens or trains the tokenizer that a job names.
#include "worker/trainer/data/tokenizer/tokenizer_source.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/tokenizer/bpe_trainer.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/wordpiece_tokenizer.h"

namespace comera::trainer {
namespace {

using Activity = std::function<void(const std::string&)>;

constexpr int32_t kMinVocabulary = 300;
constexpr int32_t kMaxVocabulary = 65536;
constexpr int64_t kActivityEvery = 2000;  // texts

absl::StatusOr<BytePairVocabulary> TrainVocabulary(const Corpus& corpus,
                                                   int32_t size,
                                                   const Activity& activity) {
  WordCounts words;
  int64_t texts = 0;
  RETURN_IF_ERROR(
      corpus.Read(Corpus::Part::kTrain, [&](const CorpusText& text) {
        words.Add(text.first);
        words.Add(text.second);
        if (activity && texts++ % kActivityEvery == 0) {
          activity(absl::StrCat("counting words, ", texts, " texts"));
        }
        return absl::OkStatus();
      }));
  return TrainBytePairVocabulary(
      words, size, [&activity](int32_t done, int32_t all) {
        if (activity) {
          activity(absl::StrCat("training vocabulary, ", done, " of ", all));
        }
      });
}

// "<bytes of vocab.json> vocab.json merges.txt", as the cache keeps it.
std::string Pack(const BytePairVocabulary& vocabulary) {
  const std::string json = VocabularyJson(vocabulary);
  return absl::StrCat(json.size(), "\n", json, MergesText(vocabulary));
}

absl::StatusOr<BytePairVocabulary> Unpack(absl::string_view bytes) {
  const size_t end = bytes.find('\n');
  uint64_t size = 0;
  if (end == absl::string_view::npos ||
      !absl::SimpleAtoi(bytes.substr(0, end), &size) ||
      size > bytes.size() - end - 1) {
    return absl::DataLossError("malformed vocabulary");
  }
  bytes.remove_prefix(end + 1);
  return ParseBytePairVocabulary(bytes.substr(0, size), "cached vocabulary",
                                 bytes.substr(size), "cached merges");
}

absl::StatusOr<OpenedTokenizer> OpenTrained(int32_t size, const Corpus& corpus,
                                            FileCache* cache,
                                            const Activity& activity) {
  if (size < kMinVocabulary || size > kMaxVocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.tokenizer.train_vocabulary_size: ", size,
                     " is not in ", kMinVocabulary, " to ", kMaxVocabulary));
  }
  OpenedTokenizer result;
  result.fingerprint =
      absl::StrCat("trained byte bpe 1\n", size, "\n", corpus.fingerprint());
  RETURN_IF_ERROR(cache->GetOrBuild(
      "vocabulary", result.fingerprint,
      [&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const BytePairVocabulary vocabulary,
                         TrainVocabulary(corpus, size, activity));
        return Pack(vocabulary);
      },
      [&](absl::string_view bytes) -> absl::Status {
        ASSIGN_OR_RETURN(BytePairVocabulary vocabulary, Unpack(bytes));
        ASSIGN_OR_RETURN(result.tokenizer,
                         ByteBpeTokenizer::Create(std::move(vocabulary)));
        return absl::OkStatus();
      }));
  return result;
}

}  // namespace

absl::StatusOr<OpenedTokenizer> OpenTokenizer(const v1::TokenizerSpec& spec,
                                              const Corpus& corpus,
                                              FileCache* cache,
                                              const Activity& on_activity) {
  OpenedTokenizer result;
  switch (spec.kind()) {
    case v1::TokenizerSpec::WORDPIECE: {
      if (spec.vocabulary_file().empty()) {
        return absl::InvalidArgumentError(
            "data.tokenizer.vocabulary_file: WORDPIECE needs one");
      }
      const bool lowercase = !spec.has_lowercase() || spec.lowercase();
      ASSIGN_OR_RETURN(const std::string stamp,
                       FileStamp(spec.vocabulary_file()));
      result.fingerprint =
          absl::StrCat("wordpiece 1\n", lowercase, "\n", stamp);
      ASSIGN_OR_RETURN(
          result.tokenizer,
          WordpieceTokenizer::Load(spec.vocabulary_file(), lowercase));
      return result;
    }
    case v1::TokenizerSpec::BYTE_BPE: {
      const bool from_files =
          !spec.vocabulary_file().empty() || !spec.merges_file().empty();
      if (!from_files) {
        return OpenTrained(spec.train_vocabulary_size(), corpus, cache,
                           on_activity);
      }
      if (spec.vocabulary_file().empty() || spec.merges_file().empty()) {
        return absl::InvalidArgumentError(
            "data.tokenizer: BYTE_BPE needs both vocabulary_file and "
            "merges_file, or neither and train_vocabulary_size");
      }
      ASSIGN_OR_RETURN(const std::string vocabulary_stamp,
                       FileStamp(spec.vocabulary_file()));
      ASSIGN_OR_RETURN(const std::string merges_stamp,
                       FileStamp(spec.merges_file()));
      result.fingerprint =
          absl::StrCat("byte bpe 1\n", vocabulary_stamp, "\n", merges_stamp);
      ASSIGN_OR_RETURN(
          BytePairVocabulary vocabulary,
          LoadBytePairVocabulary(spec.vocabulary_file(), spec.merges_file()));
      ASSIGN_OR_RETURN(result.tokenizer,
                       ByteBpeTokenizer::Create(std::move(vocabulary)));
      return result;
    }
    default:
      return absl::InvalidArgumentError("data.tokenizer.kind: missing");
  }
}

}  // namespace comera::trainer
