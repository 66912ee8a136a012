#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_SET_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/batch/documents.h"
#include "worker/trainer/data/batch/token_array.h"

namespace comera::trainer {

// Documents in memory.
//
// Not thread safe while documents are added; const methods are.
class DocumentSet : public Documents {
 public:
  DocumentSet() = default;
  explicit DocumentSet(int32_t vocabulary_size) : token_ids_(vocabulary_size) {}

  // `tokens`: at least one. `text_bytes`: the length of the document's text, in
  // UTF-8. ResourceExhausted: above 2^31 tokens.
  absl::Status Add(const std::vector<int32_t>& tokens, int64_t text_bytes);

  int64_t documents() const override {
    return static_cast<int64_t>(ends_.size());
  }
  int64_t tokens() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t text_bytes() const override { return text_bytes_; }
  absl::Status CopyTokens(int64_t first, int64_t count,
                          int32_t* ids) const override {
    token_ids_.Copy(first, count, ids);
    return absl::OkStatus();
  }
  absl::Status CopyEnds(int64_t first, int64_t count,
                        std::vector<int64_t>* ends) const override;
  std::vector<int64_t> LabelCounts() const override;

  int32_t token(int64_t i) const { return token_ids_[i]; }
  // The document that a token belongs to, found by bisection.
  int64_t DocumentOf(int64_t token) const;
  // One behind the last token of a document.
  int64_t end(int64_t document) const { return ends_[document]; }
  int32_t vocabulary_size() const { return token_ids_.vocabulary_size(); }

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

// The parts of a corpus in memory.
struct DocumentSets {
  DocumentSet train;
  DocumentSet validation;
  DocumentSet test;  // empty without a test set
};

// The same parts, as they are read; they share `sets`.
inline DocumentParts PartsOf(const std::shared_ptr<const DocumentSets>& sets) {
  DocumentParts parts;
  parts.train = {sets, &sets->train};
  parts.validation = {sets, &sets->validation};
  if (sets->test.documents() > 0) parts.test = {sets, &sets->test};
  return parts;
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_DOCUMENT_SET_H_
