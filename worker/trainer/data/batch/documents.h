#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENTS_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

namespace comera::trainer {

// Tokenised documents, one after another without gaps: tokens and documents are
// numbered from 0. Every token but the last of a document has a label, which is
// the next token.
//
// Thread safety: const methods may be called from several threads.
class Documents {
 public:
  virtual ~Documents() = default;

  virtual int64_t documents() const = 0;
  virtual int64_t tokens() const = 0;
  int64_t labels() const { return tokens() - documents(); }
  // Length of the documents' texts, in UTF-8.
  virtual int64_t text_bytes() const = 0;

  // Writes tokens [first, first + count), which exist. DataLoss, Unavailable:
  // they cannot be read, or one is outside the vocabulary.
  virtual absl::Status CopyTokens(int64_t first, int64_t count,
                                  int32_t* ids) const = 0;
  // Writes for each document that has one of the tokens [first, first + count),
  // of which there is at least one, the number of the token behind its last
  // one. DataLoss, Unavailable: as CopyTokens.
  virtual absl::Status CopyEnds(int64_t first, int64_t count,
                                std::vector<int64_t>* ends) const = 0;

  // How often each token of the vocabulary is a label. (vocabulary)
  virtual std::vector<int64_t> LabelCounts() const = 0;
};

// What a causal language model trains, validates and tests on.
struct DocumentParts {
  std::shared_ptr<const Documents> train;
  std::shared_ptr<const Documents> validation;
  std::shared_ptr<const Documents> test;  // null without a test set
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENTS_H_
