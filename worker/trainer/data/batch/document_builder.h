#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_BUILDER_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_BUILDER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/document_set.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Takes the tokens of a document, at least one, and the length of its text.
using DocumentSink =
    std::function<absl::Status(const std::vector<int32_t>&, int64_t)>;

// Tokenises the documents of a part. Each ends with the tokenizer's
// end_of_text, if it has one; documents without any token are left out.
// Statuses of Corpus::Read and of `sink`. `on_activity` may be empty.
absl::Status TokeniseDocuments(
    const Corpus& corpus, Corpus::Part part, Tokenizer* tokenizer,
    const std::function<void(const std::string&)>& on_activity,
    const DocumentSink& sink);

// Tokenises all parts of a corpus into memory. OutOfRange: there are more than
// `max_tokens` in all. Statuses of TokeniseDocuments and CheckDocuments.
absl::StatusOr<DocumentSets> BuildDocuments(
    const Corpus& corpus, Tokenizer* tokenizer,
    const std::function<void(const std::string&)>& on_activity,
    int64_t max_tokens = std::numeric_limits<int64_t>::max());

// DataLoss: a part that is needed has no label; `test` may be null.
absl::Status CheckDocuments(const Documents& train, const Documents& validation,
                            const Documents* test);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_BUILDER_H_
