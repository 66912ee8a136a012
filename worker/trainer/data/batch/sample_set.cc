// Stores samples of token ids compactly.
#include "worker/trainer/data/batch/sample_set.h"

#include <algorithm>

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
  if (narrow()) {
    narrow_.insert(narrow_.end(), tokens.begin(), tokens.end());
  } else {
    wide_.insert(wide_.end(), tokens.begin(), tokens.end());
  }
  ends_.push_back(end);
  second_starts_.push_back(second_start);
  labels_.push_back(label);
  return absl::OkStatus();
}

void SampleSet::CopyTokens(int64_t sample, int32_t* ids) const {
  if (narrow()) {
    std::copy(narrow_.begin() + begin(sample), narrow_.begin() + ends_[sample],
              ids);
  } else {
    std::copy(wide_.begin() + begin(sample), wide_.begin() + ends_[sample],
              ids);
  }
}

void SampleSet::Serialize(std::string* bytes) const {
  AppendVector(narrow_, bytes);
  AppendVector(wide_, bytes);
  AppendVector(ends_, bytes);
  AppendVector(second_starts_, bytes);
  AppendVector(labels_, bytes);
}

absl::StatusOr<SampleSet> SampleSet::Parse(absl::string_view* bytes,
                                           int32_t vocabulary_size,
                                           int32_t max_length) {
  SampleSet set(vocabulary_size);
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.narrow_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.wide_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.ends_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.second_starts_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &set.labels_));
  const size_t samples = set.ends_.size();
  const size_t tokens = set.narrow() ? set.narrow_.size() : set.wide_.size();
  if (set.second_starts_.size() != samples || set.labels_.size() != samples ||
      static_cast<size_t>(set.tokens()) != tokens) {
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
  const auto outside = [vocabulary_size](int32_t id) {
    return id < 0 || id >= vocabulary_size;
  };
  if (std::any_of(set.narrow_.begin(), set.narrow_.end(), outside) ||
      std::any_of(set.wide_.begin(), set.wide_.end(), outside)) {
    return absl::DataLossError("a token is outside the vocabulary");
  }
  return set;
}

}  // namespace comera::trainer
