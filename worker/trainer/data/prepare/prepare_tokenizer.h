#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/prepare/document_stream.h"
#include "worker/trainer/data/prepare/source_list.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// The tokenizer of `path`: a folder that FindSavedTokenizer knows, or one of
// the files that it looks for, whose neighbours are read too. InvalidArgument:
// a file of another name; NotFound, DataLoss: the files.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizerAt(
    const std::string& path);

// Trains the tokenizer that `spec` describes (BYTE_BPE with
// train_vocabulary_size, or CHARACTERS) on `sources`: on all of them where they
// hold `max_bytes` or less, otherwise, for BYTE_BPE, on the first document and
// so many others as their hashes choose, about `max_bytes` in all. `activity`
// is called now and then; if it returns an error, training ends with it.
// Statuses of DocumentStream and OpenTokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> TrainTokenizer(
    const v1::TokenizerSpec& spec, const std::vector<SourceFile>& sources,
    const DocumentStream::Options& options, int64_t max_bytes,
    const std::function<absl::Status(const std::string&)>& activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_TOKENIZER_H_
