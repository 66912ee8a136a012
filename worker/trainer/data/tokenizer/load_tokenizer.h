#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_LOAD_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_LOAD_TOKENIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Loads the tokenizer of the files that `spec` names; of CHARACTERS that is
// characters.json of a saved model, as vocabulary_file. InvalidArgument: files
// are missing in the spec, or of a kind that is not supported; NotFound,
// DataLoss: the files.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const v1::TokenizerSpec& spec);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_LOAD_TOKENIZER_H_
