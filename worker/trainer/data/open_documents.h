#ifndef COMERA_WORKER_TRAINER_DATA_OPEN_DOCUMENTS_H_
#define COMERA_WORKER_TRAINER_DATA_OPEN_DOCUMENTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/documents.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/tokenizer/tokenizer_source.h"

namespace comera::trainer {

// The tokens of a corpus's documents, whatever the length of the samples that
// they are cut into: in memory, or, where that would take more than `max_bytes`
// (and `cache` is on), as token shards in the cache, tokenised once for all
// processes of the machine. Statuses of BuildDocuments, and of ErrnoStatus for
// shards that cannot be written. `activity` may be empty.
absl::StatusOr<DocumentParts> OpenDocuments(
    const Corpus& corpus, const OpenedTokenizer& opened, int64_t max_bytes,
    FileCache* cache, const std::function<void(const std::string&)>& activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_OPEN_DOCUMENTS_H_
