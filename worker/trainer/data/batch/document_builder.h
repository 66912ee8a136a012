#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_BUILDER_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_BUILDER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/document_set.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Tokenises all parts of a corpus of documents. Each document ends with the
// tokenizer's end_of_text, if it has one;
// documents without any token are left out. Statuses of Corpus::Read and
// CheckDocuments. `on_activity` may be empty.
absl::StatusOr<DocumentSets> BuildDocuments(
    const Corpus& corpus, Tokenizer* tokenizer,
    const std::function<void(const std::string&)>& on_activity);

// DataLoss: a part that is needed has no label; `has_test`: the test part is.
absl::Status CheckDocuments(const DocumentSets& sets, bool has_test);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_BUILDER_H_
