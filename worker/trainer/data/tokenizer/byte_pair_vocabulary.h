// The two files of a byte-level BPE vocabulary.
#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_PAIR_VOCABULARY_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_PAIR_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

struct BytePairVocabulary {
  // Two neighbouring tokens become one. Earlier merges go first.
  struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t result = 0;
  };
  // Token of each id, a character per byte (ByteCharacters()).
  std::vector<std::string> tokens;
  std::vector<Merge> merges;
};

// DataLoss, with file and line: not UTF-8, not JSON of the form {"token": id},
// a token or id twice, ids with gaps, a merge of or into unknown tokens, a line
// above 64 KiB. The names are for messages.
absl::StatusOr<BytePairVocabulary> ParseBytePairVocabulary(
    absl::string_view vocabulary, const std::string& vocabulary_name,
    absl::string_view merges, const std::string& merges_name);

// Reads vocab.json and merges.txt. NotFound also.
absl::StatusOr<BytePairVocabulary> LoadBytePairVocabulary(
    const std::string& vocabulary_file, const std::string& merges_file);

// The files' contents.
std::string VocabularyJson(const BytePairVocabulary& vocabulary);
std::string MergesText(const BytePairVocabulary& vocabulary);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_PAIR_VOCABULARY_H_
