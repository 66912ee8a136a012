#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_SAMPLE_SET_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_SAMPLE_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/batch/token_array.h"

namespace comera::trainer {

// Tokenised samples, special tokens included, without padding; two bytes a
// token where the vocabulary allows it.
//
// Not thread safe while samples are added; const methods are.
class SampleSet {
 public:
  SampleSet() = default;
  explicit SampleSet(int32_t vocabulary_size) : token_ids_(vocabulary_size) {}

  // `second_start`: where the second sentence starts, `tokens.size()` without
  // one. ResourceExhausted: above 2^30 tokens.
  absl::Status Add(const std::vector<int32_t>& tokens, int32_t second_start,
                   int32_t label);

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  int64_t tokens() const { return ends_.empty() ? 0 : ends_.back(); }
  int32_t vocabulary_size() const { return token_ids_.vocabulary_size(); }

  int32_t length(int64_t sample) const {
    return static_cast<int32_t>(ends_[sample] - begin(sample));
  }
  int32_t second_start(int64_t sample) const { return second_starts_[sample]; }
  int32_t label(int64_t sample) const { return labels_[sample]; }
  // Writes length(sample) ids.
  void CopyTokens(int64_t sample, int32_t* ids) const;

  // Bytes for the cache, and back. DataLoss: not what Serialize wrote, or
  // samples that do not fit `vocabulary_size` or `max_length`.
  void Serialize(std::string* bytes) const;
  static absl::StatusOr<SampleSet> Parse(absl::string_view* bytes,
                                         int32_t vocabulary_size,
                                         int32_t max_length);

 private:
  int64_t begin(int64_t sample) const {
    return sample == 0 ? 0 : ends_[sample - 1];
  }

  TokenArray token_ids_;
  std::vector<int64_t> ends_;  // per sample
  std::vector<int32_t> second_starts_;
  std::vector<int32_t> labels_;
};

// What a job trains, validates and tests on.
struct SampleSets {
  SampleSet train;
  SampleSet validation;
  SampleSet test;  // empty without a test set
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_SAMPLE_SET_H_
