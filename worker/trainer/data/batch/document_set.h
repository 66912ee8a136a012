#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_SET_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/batch/token_array.h"

namespace comera::trainer {

// Tokenised documents, one after another without gaps: tokens and documents are
// numbered from 0. Every token but the last of a document has a label, which is
// the next token.
//
// Not thread safe while documents are added; const methods are.
class DocumentSet {
 public:
  DocumentSet() = default;
  explicit DocumentSet(int32_t vocabulary_size) : token_ids_(vocabulary_size) {}

  // `tokens`: at least one. `text_bytes`: the length of the document's text, in
  // UTF-8. ResourceExhausted: above 2^31 tokens.
  absl::Status Add(const std::vector<int32_t>& tokens, int64_t text_bytes);

  int64_t documents() const { return static_cast<int64_t>(ends_.size()); }
  int64_t tokens() const { return ends_.empty() ? 0 : ends_.back(); }
  int64_t labels() const { return tokens() - documents(); }
  int64_t text_bytes() const { return text_bytes_; }

  int32_t token(int64_t i) const { return token_ids_[i]; }
  // Writes tokens [first, first + count).
  void CopyTokens(int64_t first, int64_t count, int32_t* ids) const {
    token_ids_.Copy(first, count, ids);
  }
  // The document that a token belongs to, found by bisection.
  int64_t DocumentOf(int64_t token) const;
  // One behind the last token of a document.
  int64_t end(int64_t document) const { return ends_[document]; }
  // How often each token of the vocabulary is a label. (vocabulary)
  std::vector<int64_t> LabelCounts() const;

  // Bytes for the cache, and back. DataLoss: not what Serialize wrote, or
  // tokens that do not fit `vocabulary_size`.
  void Serialize(std::string* bytes) const;
  static absl::StatusOr<DocumentSet> Parse(absl::string_view* bytes,
                                           int32_t vocabulary_size);

 private:
  TokenArray token_ids_;
  std::vector<int64_t> ends_;  // per document
  int64_t text_bytes_ = 0;
};

// What a causal language model trains, validates and tests on.
struct DocumentSets {
  DocumentSet train;
  DocumentSet validation;
  DocumentSet test;  // empty without a test set
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_SET_H_
