// Turns texts into samples of token ids.
#include "worker/trainer/data/batch/sample_builder.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/pair_tokens.h"

namespace comera::trainer {
namespace {

constexpr int64_t kActivityEvery = 2000;  // texts

class SampleBuilder {
 public:
  SampleBuilder(int32_t max_length, bool needs_ordinary, Tokenizer* tokenizer)
      : max_length_(max_length),
        needs_ordinary_(needs_ordinary),
        tokenizer_(*tokenizer),
        special_(tokenizer->special_tokens()) {}

  absl::Status Add(const CorpusText& text, SampleSet* set) {
    first_.clear();
    tokenizer_.Encode(text.first, &first_);
    if (text.is_pair) return AddPair(text, set);
    return text.is_single ? AddSingle(text.label, set) : AddWindows(set);
  }

 private:
  bool HasOrdinary(std::vector<int32_t>::const_iterator begin,
                   std::vector<int32_t>::const_iterator end) const {
    return std::any_of(begin, end,
                       [this](int32_t id) { return !special_.Contains(id); });
  }

  absl::Status AddWindows(SampleSet* set) {
    const size_t width = static_cast<size_t>(max_length_ - 2);
    for (size_t at = 0; at < first_.size(); at += width) {
      const auto begin = first_.begin() + at;
      const auto end = first_.begin() + std::min(at + width, first_.size());
      if (needs_ordinary_ && !HasOrdinary(begin, end)) continue;
      sample_.assign(1, special_.cls);
      sample_.insert(sample_.end(), begin, end);
      sample_.push_back(special_.sep);
      RETURN_IF_ERROR(
          set->Add(sample_, static_cast<int32_t>(sample_.size()), 0));
    }
    return absl::OkStatus();
  }

  absl::Status AddSingle(int32_t label, SampleSet* set) {
    if (needs_ordinary_ && !HasOrdinary(first_.begin(), first_.end())) {
      return absl::OkStatus();
    }
    first_.resize(
        std::min(first_.size(), static_cast<size_t>(max_length_ - 2)));
    sample_.assign(1, special_.cls);
    sample_.insert(sample_.end(), first_.begin(), first_.end());
    sample_.push_back(special_.sep);
    return set->Add(sample_, static_cast<int32_t>(sample_.size()), label);
  }

  absl::Status AddPair(const CorpusText& text, SampleSet* set) {
    second_.clear();
    tokenizer_.Encode(text.second, &second_);
    if (needs_ordinary_ && !HasOrdinary(first_.begin(), first_.end()) &&
        !HasOrdinary(second_.begin(), second_.end())) {
      return absl::OkStatus();
    }
    const bool segments = tokenizer_.has_segments();
    CutPair(max_length_, segments, &first_, &second_);
    const int32_t second_start =
        JoinPair(special_, segments, first_, second_, &sample_);
    return set->Add(sample_, second_start, text.label);
  }

  const int32_t max_length_;
  const bool needs_ordinary_;
  Tokenizer& tokenizer_;
  const SpecialTokens special_;
  std::vector<int32_t> first_;
  std::vector<int32_t> second_;
  std::vector<int32_t> sample_;
};

}  // namespace

absl::StatusOr<SampleSets> BuildSamples(
    const Corpus& corpus, int32_t max_length, bool needs_ordinary,
    Tokenizer* tokenizer,
    const std::function<void(const std::string&)>& on_activity) {
  SampleSets sets;
  sets.test = SampleSet(tokenizer->vocabulary_size());
  SampleBuilder builder(max_length, needs_ordinary, tokenizer);
  const std::tuple<Corpus::Part, const char*, SampleSet*> parts[] = {
      {Corpus::Part::kTrain, "training", &sets.train},
      {Corpus::Part::kValidation, "validation", &sets.validation},
      {Corpus::Part::kTest, "test", &sets.test}};
  for (const auto& entry : parts) {
    const Corpus::Part part = std::get<0>(entry);
    const char* const name = std::get<1>(entry);
    SampleSet* const set = std::get<2>(entry);
    if (part == Corpus::Part::kTest && !corpus.has_test()) continue;
    *set = SampleSet(tokenizer->vocabulary_size());
    int64_t texts = 0;
    RETURN_IF_ERROR(corpus.Read(part, [&](const CorpusText& text) {
      if (on_activity && texts % kActivityEvery == 0) {
        on_activity(
            absl::StrCat("tokenising ", name, " data, ", texts, " texts"));
      }
      ++texts;
      return builder.Add(text, set);
    }));
    if (set->size() == 0) {
      return absl::DataLossError(
          absl::StrCat("data: no ", name, " sample in ", texts, " texts"));
    }
  }
  return sets;
}

}  // namespace comera::trainer
