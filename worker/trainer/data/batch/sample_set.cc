// Stores samples of token ids compactly.
#include "worker/trainer/data/batch/sample_set.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/vector_bytes.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;

}  // namespace

absl::Status SampleSet::Add(const std::vector<int32_t>& tokens,
                            int32_t second_start, int32_t label) {
  const int64_t end = this->tokens() + static_cast<int64_t>(tokens.size());
  if (end > kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxTokens, " tokens of training data"));
  }
  token_ids_.Append(tokens);
  ends_.push_back(end);
  second_starts_.push_back(second_start);
  labels_.push_back(label);
  return absl::OkStatus();
}

void SampleSet::CopyTokens(int64_t sample, int32_t* ids) const {
  token_ids_.Copy(begin(sample), length(sample), ids);
}

void SampleSet::Serialize(std::string* bytes) const {
  token_ids_.Serialize(bytes);
  AppendVector(ends_, bytes);
  AppendVector(second_starts_, bytes);
  AppendVector(labels_, bytes);
}

absl::StatusOr<SampleSet> SampleSet::Parse(absl::string_view* bytes,
                                           int32_t vocabulary_size,
                                           int32_t max_length) {
  SampleSet set(vocabulary_size);
  ASSIGN_OR_RETURN(set.token_ids_, TokenArray::Parse(bytes, vocabulary_size));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.ends_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.second_starts_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.labels_));
  const size_t samples = set.ends_.size();
  if (set.second_starts_.size() != samples || set.labels_.size() != samples ||
      set.tokens() != set.token_ids_.size()) {
    return absl::DataLossError("counts disagree");
  }
  for (size_t i = 0; i < samples; ++i) {
    // Compared before anything is subtracted: an end may be any number.
    const int64_t begin = set.begin(static_cast<int64_t>(i));
    const int64_t end = set.ends_[i];
    if (end <= begin || end > begin + max_length || set.second_starts_[i] < 0 ||
        set.second_starts_[i] > end - begin || set.labels_[i] < 0) {
      return absl::DataLossError(absl::StrCat("sample ", i, " is impossible"));
    }
  }
  return set;
}

}  // namespace comera::trainer
