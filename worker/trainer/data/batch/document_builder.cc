// Turns documents into token ids.
#include "worker/trainer/data/batch/document_builder.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

// Activity is told after so many documents or bytes.
constexpr int64_t kActivityDocuments = 2000;
constexpr int64_t kActivityBytes = 8 << 20;

using Activity = std::function<void(const std::string&)>;

const char* NameOf(Corpus::Part part) {
  return part == Corpus::Part::kTrain        ? "training"
         : part == Corpus::Part::kValidation ? "validation"
                                             : "test";
}

absl::Status CheckPart(const Documents& set, const char* name) {
  if (set.labels() > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data: no ", name, " token in ",
                                          set.documents(),
                                          " documents can be predicted"));
}

}  // namespace

absl::Status TokeniseDocuments(const Corpus& corpus, Corpus::Part part,
                               Tokenizer* tokenizer,
                               const Activity& on_activity,
                               const DocumentSink& sink) {
  const std::optional<int32_t> end_of_text = tokenizer->end_of_text();
  std::vector<int32_t> tokens;
  int64_t documents = 0, all_tokens = 0;
  int64_t bytes = kActivityBytes;  // since the last report
  return corpus.Read(part, [&](const CorpusText& text) {
    const auto size = static_cast<int64_t>(text.first.size());
    bytes += size;
    if (on_activity &&
        (documents % kActivityDocuments == 0 || bytes >= kActivityBytes)) {
      on_activity(absl::StrCat("tokenising ", NameOf(part), " data, ",
                               documents, " documents, ", all_tokens,
                               " tokens"));
      bytes = 0;
    }
    ++documents;
    tokens.clear();
    tokenizer->Encode(text.first, &tokens);
    if (tokens.empty()) return absl::OkStatus();
    if (end_of_text) tokens.push_back(*end_of_text);
    all_tokens += static_cast<int64_t>(tokens.size());
    return sink(tokens, size);
  });
}

absl::StatusOr<DocumentSets> BuildDocuments(const Corpus& corpus,
                                            Tokenizer* tokenizer,
                                            const Activity& on_activity,
                                            int64_t max_tokens) {
  DocumentSets sets;
  int64_t all_tokens = 0;
  const std::pair<Corpus::Part, DocumentSet*> parts[] = {
      {Corpus::Part::kTrain, &sets.train},
      {Corpus::Part::kValidation, &sets.validation},
      {Corpus::Part::kTest, &sets.test}};
  for (const auto& [part, set] : parts) {
    *set = DocumentSet(tokenizer->vocabulary_size());
    if (part == Corpus::Part::kTest && !corpus.has_test()) continue;
    RETURN_IF_ERROR(TokeniseDocuments(
        corpus, part, tokenizer, on_activity,
        [&, set = set](const std::vector<int32_t>& tokens, int64_t text_bytes) {
          all_tokens += static_cast<int64_t>(tokens.size());
          if (all_tokens > max_tokens) {
            return absl::OutOfRangeError(
                absl::StrCat("more than ", max_tokens, " tokens"));
          }
          return set->Add(tokens, text_bytes);
        }));
  }
  RETURN_IF_ERROR(CheckDocuments(sets.train, sets.validation,
                                 corpus.has_test() ? &sets.test : nullptr));
  return sets;
}

absl::Status CheckDocuments(const Documents& train, const Documents& validation,
                            const Documents* test) {
  RETURN_IF_ERROR(CheckPart(train, "training"));
  RETURN_IF_ERROR(CheckPart(validation, "validation"));
  return test == nullptr ? absl::OkStatus() : CheckPart(*test, "test");
}

}  // namespace comera::trainer
