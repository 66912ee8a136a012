// Stores the tokens of documents in one array.
#include "worker/trainer/data/batch/document_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/vector_bytes.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;

}  // namespace

absl::Status DocumentSet::Add(const std::vector<int32_t>& tokens,
                              int64_t text_bytes) {
  const int64_t end = this->tokens() + static_cast<int64_t>(tokens.size());
  if (end > kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxTokens, " tokens of documents"));
  }
  token_ids_.Append(tokens);
  ends_.push_back(end);
  text_bytes_ += text_bytes;
  return absl::OkStatus();
}

int64_t DocumentSet::DocumentOf(int64_t token) const {
  return std::upper_bound(ends_.begin(), ends_.end(), token) - ends_.begin();
}

absl::Status DocumentSet::CopyEnds(int64_t first, int64_t count,
                                   std::vector<int64_t>* ends) const {
  ends->clear();
  int64_t document = DocumentOf(first);
  do {
    ends->push_back(ends_[document++]);
  } while (ends->back() < first + count);
  return absl::OkStatus();
}

std::vector<int64_t> DocumentSet::LabelCounts() const {
  std::vector<int64_t> counts(token_ids_.vocabulary_size(), 0);
  int64_t begin = 0;
  for (const int64_t end : ends_) {
    for (int64_t i = begin + 1; i < end; ++i) ++counts[token(i)];
    begin = end;
  }
  return counts;
}

void DocumentSet::Serialize(std::string* bytes) const {
  token_ids_.Serialize(bytes);
  AppendVector(ends_, bytes);
  AppendVector(std::vector<int64_t>{text_bytes_}, bytes);
}

absl::StatusOr<DocumentSet> DocumentSet::Parse(absl::string_view* bytes,
                                               int32_t vocabulary_size) {
  DocumentSet set;
  ASSIGN_OR_RETURN(set.token_ids_, TokenArray::Parse(bytes, vocabulary_size));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.ends_));
  std::vector<int64_t> text_bytes;
  RETURN_IF_ERROR(ConsumeVector(bytes, &text_bytes));
  int64_t begin = 0;
  for (const int64_t end : set.ends_) {
    if (end <= begin) return absl::DataLossError("a document has no tokens");
    begin = end;
  }
  if (set.tokens() != set.token_ids_.size() || text_bytes.size() != 1 ||
      text_bytes[0] < 0) {
    return absl::DataLossError("counts disagree");
  }
  set.text_bytes_ = text_bytes[0];
  return set;
}

}  // namespace comera::trainer
