#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_DIGEST_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// A SHA-256 over the files that Tokenizer::Save left in a folder, which tells
// tokenizers apart. NotFound: none of them is there; statuses of ReadLimited.
absl::StatusOr<std::string> SavedTokenizerDigest(const std::string& directory);

// The digest that `tokenizer` has once it is saved. Unavailable,
// ResourceExhausted: no temporary folder can be written.
absl::StatusOr<std::string> TokenizerDigest(const Tokenizer& tokenizer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_DIGEST_H_
