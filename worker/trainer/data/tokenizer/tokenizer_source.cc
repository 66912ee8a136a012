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
#include "worker/trainer/data/tokenizer/code_point_set.h"
#include "worker/trainer/data/tokenizer/code_point_tokenizer.h"
#include "worker/trainer/data/tokenizer/load_tokenizer.h"

namespace comera::trainer {
namespace {

using Activity = std::function<void(const std::string&)>;

constexpr int32_t kMinVocabulary = 300;
constexpr int32_t kMaxVocabulary = 65536;
constexpr int64_t kActivityEvery = 2000;  // texts

// Calls add(text) for each text of the training part.
absl::Status ReadTexts(const Corpus& corpus, const char* what,
                       const Activity& activity,
                       const std::function<void(absl::string_view)>& add) {
  int64_t texts = 0;
  return corpus.Read(Corpus::Part::kTrain, [&](const CorpusText& text) {
    add(text.first);
    add(text.second);
    if (activity && texts++ % kActivityEvery == 0) {
      activity(absl::StrCat(what, ", ", texts, " texts"));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<BytePairVocabulary> TrainVocabulary(const Corpus& corpus,
                                                   int32_t size,
                                                   const Activity& activity) {
  WordCounts words;
  RETURN_IF_ERROR(ReadTexts(corpus, "counting words", activity,
                            [&](absl::string_view text) { words.Add(text); }));
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

// The characters of the training part.
absl::StatusOr<OpenedTokenizer> OpenCharacters(const Corpus& corpus,
                                               FileCache* cache,
                                               const Activity& activity) {
  OpenedTokenizer result;
  result.fingerprint =
      absl::StrCat("trained characters 1\n", corpus.fingerprint());
  RETURN_IF_ERROR(cache->GetOrBuild(
      "vocabulary", result.fingerprint,
      [&]() -> absl::StatusOr<std::string> {
        CodePointSet characters;
        RETURN_IF_ERROR(
            ReadTexts(corpus, "collecting characters", activity,
                      [&](absl::string_view text) { characters.Add(text); }));
        return CodePointTokenizer::FileOf(characters);
      },
      [&](absl::string_view bytes) -> absl::Status {
        ASSIGN_OR_RETURN(result.tokenizer,
                         CodePointTokenizer::Parse(bytes, "cached characters"));
        return absl::OkStatus();
      }));
  return result;
}

// What the ids depend on beside the files.
std::string Settings(const v1::TokenizerSpec& spec) {
  switch (spec.kind()) {
    case v1::TokenizerSpec::WORDPIECE:
      return absl::StrCat("wordpiece 1\n",
                          !spec.has_lowercase() || spec.lowercase());
    case v1::TokenizerSpec::BYTE_BPE:
      return "byte bpe 1";
    case v1::TokenizerSpec::CHARACTERS:
      return "characters 1";
    case v1::TokenizerSpec::HUGGING_FACE:
      return "hugging face 1";
    default:
      return "sentencepiece 1";
  }
}

}  // namespace

absl::StatusOr<OpenedTokenizer> OpenTokenizer(const v1::TokenizerSpec& spec,
                                              const Corpus& corpus,
                                              FileCache* cache,
                                              const Activity& on_activity) {
  const bool from_files = !spec.vocabulary_file().empty() ||
                          !spec.merges_file().empty() ||
                          !spec.tokenizer_file().empty();
  if (spec.kind() == v1::TokenizerSpec::BYTE_BPE && !from_files) {
    return OpenTrained(spec.train_vocabulary_size(), corpus, cache,
                       on_activity);
  }
  if (spec.kind() == v1::TokenizerSpec::CHARACTERS && !from_files) {
    return OpenCharacters(corpus, cache, on_activity);
  }
  OpenedTokenizer result;
  ASSIGN_OR_RETURN(result.tokenizer, LoadTokenizer(spec));
  result.fingerprint = Settings(spec);
  for (const std::string* file :
       {&spec.vocabulary_file(), &spec.merges_file(), &spec.tokenizer_file()}) {
    if (file->empty()) continue;
    ASSIGN_OR_RETURN(const std::string stamp, FileStamp(*file));
    absl::StrAppend(&result.fingerprint, "\n", stamp);
  }
  return result;
}

}  // namespace comera::trainer
