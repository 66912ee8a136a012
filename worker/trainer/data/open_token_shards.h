#ifndef COMERA_WORKER_TRAINER_DATA_OPEN_TOKEN_SHARDS_H_
#define COMERA_WORKER_TRAINER_DATA_OPEN_TOKEN_SHARDS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/documents.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

struct OpenedShards {
  DocumentParts documents;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// The token shards that a job names, and their tokenizer, which has to be that
// of `tokenizer` if it has a kind. InvalidArgument: the spec, or folders of
// different tokenizers; NotFound, DataLoss: as ShardSet::Open, or a part has no
// label. `activity` may be empty.
absl::StatusOr<OpenedShards> OpenTokenShards(
    const v1::TokenShards& spec, const v1::TokenizerSpec& tokenizer,
    FileCache* cache, const std::function<void(const std::string&)>& activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_OPEN_TOKEN_SHARDS_H_
