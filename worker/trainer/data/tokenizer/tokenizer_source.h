#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_SOURCE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

struct OpenedTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  // Equal fingerprints: equal ids for any text.
  std::string fingerprint;
};

// The tokenizer that `spec` names: read from its files, or made of the training
// part of `corpus` (BYTE_BPE with train_vocabulary_size, CHARACTERS; kept in
// `cache`). InvalidArgument: the spec; NotFound, DataLoss: its files.
absl::StatusOr<OpenedTokenizer> OpenTokenizer(
    const v1::TokenizerSpec& spec, const Corpus& corpus, FileCache* cache,
    const std::function<void(const std::string&)>& on_activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_TOKENIZER_SOURCE_H_
