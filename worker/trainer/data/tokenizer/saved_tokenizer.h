#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SAVED_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SAVED_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Files that Tokenizer::Save writes, of all kinds.
inline constexpr const char* kTokenizerFiles[] = {
    "vocab.json",           "merges.txt",      "vocab.txt",
    "tokenizer.json",       "tokenizer.model", "characters.json",
    "tokenizer_config.json"};

// Finds the tokenizer that Tokenizer::Save left in a folder: vocab.json and
// merges.txt; or vocab.txt, which is of lower-case words unless
// tokenizer_config.json denies it; or tokenizer.json, tokenizer.model or
// characters.json. NotFound: none; DataLoss: tokenizer_config.json is
// malformed.
absl::StatusOr<v1::TokenizerSpec> FindSavedTokenizer(
    const std::string& directory);

// Loads that tokenizer. Errors of LoadTokenizer also.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSavedTokenizer(
    const std::string& directory);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SAVED_TOKENIZER_H_
