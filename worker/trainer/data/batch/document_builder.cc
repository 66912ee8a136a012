// Turns documents into token ids.
#include "worker/trainer/data/batch/document_builder.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

// Activity is told after so many documents or bytes.
constexpr int64_t kActivityDocuments = 2000;
constexpr int64_t kActivityBytes = 8 << 20;

using Activity = std::function<void(const std::string&)>;

absl::StatusOr<DocumentSet> BuildPart(const Corpus& corpus, Corpus::Part part,
                                      const char* name, Tokenizer* tokenizer,
                                      const Activity& on_activity) {
  const std::optional<int32_t> end_of_text = tokenizer->end_of_text();
  DocumentSet set(tokenizer->vocabulary_size());
  std::vector<int32_t> tokens;
  int64_t documents = 0;
  int64_t bytes = kActivityBytes;  // since the last report
  RETURN_IF_ERROR(corpus.Read(part, [&](const CorpusText& text) {
    const auto size = static_cast<int64_t>(text.first.size());
    bytes += size;
    if (on_activity &&
        (documents % kActivityDocuments == 0 || bytes >= kActivityBytes)) {
      on_activity(absl::StrCat("tokenising ", name, " data, ", documents,
                               " documents, ", set.tokens(), " tokens"));
      bytes = 0;
    }
    ++documents;
    tokens.clear();
    tokenizer->Encode(text.first, &tokens);
    if (tokens.empty()) return absl::OkStatus();
    if (end_of_text) tokens.push_back(*end_of_text);
    return set.Add(tokens, size);
  }));
  return set;
}

absl::Status CheckPart(const DocumentSet& set, const char* name) {
  if (set.labels() > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data: no ", name, " token in ",
                                          set.documents(),
                                          " documents can be predicted"));
}

}  // namespace

absl::StatusOr<DocumentSets> BuildDocuments(const Corpus& corpus,
                                            Tokenizer* tokenizer,
                                            const Activity& on_activity) {
  DocumentSets sets;
  ASSIGN_OR_RETURN(sets.train, BuildPart(corpus, Corpus::Part::kTrain,
                                         "training", tokenizer, on_activity));
  ASSIGN_OR_RETURN(sets.validation,
                   BuildPart(corpus, Corpus::Part::kValidation, "validation",
                             tokenizer, on_activity));
  sets.test = DocumentSet(tokenizer->vocabulary_size());
  if (corpus.has_test()) {
    ASSIGN_OR_RETURN(sets.test, BuildPart(corpus, Corpus::Part::kTest, "test",
                                          tokenizer, on_activity));
  }
  RETURN_IF_ERROR(CheckDocuments(sets, corpus.has_test()));
  return sets;
}

absl::Status CheckDocuments(const DocumentSets& sets, bool has_test) {
  RETURN_IF_ERROR(CheckPart(sets.train, "training"));
  RETURN_IF_ERROR(CheckPart(sets.validation, "validation"));
  return has_test ? CheckPart(sets.test, "test") : absl::OkStatus();
}

}  // namespace comera::trainer
