// Serves shuffled batches from samples held in memory.
#include "worker/trainer/data/batch/in_memory_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/random/permutation.h"

namespace comera::trainer {
namespace {

// Rows of a batch are 32-bit.
constexpr int64_t kMaxBatchTokens = std::numeric_limits<int32_t>::max();

}  // namespace

InMemoryData::InMemoryData(const Options& options, SampleSets samples,
                           std::unique_ptr<Tokenizer> tokenizer)
    : options_(options),
      samples_(std::move(samples)),
      tokenizer_(std::move(tokenizer)) {
  baseline_loss_ = masked_lm() ? MaskedLmBaseline() : ClassifierBaseline();
}

absl::Status InMemoryData::TrainBatch(int64_t step, int64_t batch_size,
                                      int rank, int world_size,
                                      Batch* batch) const {
  if (step < 0 || batch_size < 1 || world_size < 1 || rank < 0 ||
      rank >= world_size || batch_size % world_size != 0 ||
      batch_size > kMaxBatchTokens / options_.max_length ||
      step > std::numeric_limits<int64_t>::max() / batch_size - 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("training batch: step ", step, ", batch size ", batch_size,
                     ", rank ", rank, " of ", world_size));
  }
  const int64_t share = batch_size / world_size;
  const int64_t first = share * rank;
  Clear(share, first, batch);
  const uint64_t samples = static_cast<uint64_t>(train_samples());
  for (int64_t row = 0; row < share; ++row) {
    const uint64_t number =
        static_cast<uint64_t>(step * batch_size + first + row);
    const uint64_t sample =
        PermutedIndex(options_.seed, RandomStream::kEpochOrder,
                      number / samples, samples, number % samples);
    const MaskKey key{options_.seed, RandomStream::kTrainMask,
                      static_cast<uint64_t>(step),
                      static_cast<uint64_t>(first + row)};
    Fill(samples_.train, static_cast<int64_t>(sample), key, row, batch);
  }
  return absl::OkStatus();
}

absl::Status InMemoryData::ValidationBatch(int64_t first, int64_t count,
                                           Batch* batch) const {
  return HeldOutBatch(samples_.validation, RandomStream::kValidationOrder,
                      RandomStream::kValidationMask, first, count, batch);
}

absl::Status InMemoryData::TestBatch(int64_t first, int64_t count,
                                     Batch* batch) const {
  return HeldOutBatch(samples_.test, RandomStream::kTestOrder,
                      RandomStream::kTestMask, first, count, batch);
}

absl::Status InMemoryData::HeldOutBatch(const SampleSet& set,
                                        RandomStream order, RandomStream masks,
                                        int64_t first, int64_t count,
                                        Batch* batch) const {
  if (first < 0 || first > set.size() || count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation or test batch: samples from ", first, ", ",
                     count, ", of ", set.size()));
  }
  count = std::min(
      {count, set.size() - first, kMaxBatchTokens / options_.max_length});
  Clear(count, first, batch);
  for (int64_t row = 0; row < count; ++row) {
    const auto number = static_cast<uint64_t>(first + row);
    const uint64_t sample = PermutedIndex(
        options_.seed, order, 0, static_cast<uint64_t>(set.size()), number);
    Fill(set, static_cast<int64_t>(sample),
         MaskKey{options_.seed, masks, 0, number}, row, batch);
  }
  return absl::OkStatus();
}

absl::Status InMemoryData::SaveTokenizer(const std::string& directory) const {
  RETURN_IF_ERROR(MakeDirectories(directory));
  RETURN_IF_ERROR(SaveInputFormat(options_.format, directory));
  return tokenizer_->Save(directory);
}

void InMemoryData::Clear(int64_t size, int64_t first_sample,
                         Batch* batch) const {
  const size_t tokens = static_cast<size_t>(size * options_.max_length);
  batch->size = size;
  batch->length = options_.max_length;
  batch->first_sample = first_sample;
  batch->ids.assign(tokens, tokenizer_->special_tokens().pad);
  batch->segments.assign(tokens, 0);
  batch->mask.assign(tokens, 0.0f);
  batch->label_rows.clear();
  batch->labels.clear();
}

void InMemoryData::Fill(const SampleSet& set, int64_t sample,
                        const MaskKey& key, int64_t row, Batch* batch) const {
  const int64_t start = row * options_.max_length;
  const int32_t length = set.length(sample);
  int32_t* const ids = &batch->ids[start];
  set.CopyTokens(sample, ids);
  std::fill_n(batch->mask.begin() + start, length, 1.0f);
  if (options_.use_segments) {
    std::fill(batch->segments.begin() + start + set.second_start(sample),
              batch->segments.begin() + start + length, 1);
  }
  if (masked_lm()) {
    MaskTokens(key, options_.mask_probability, tokenizer_->special_tokens(),
               vocabulary_size(), static_cast<int32_t>(start), ids, length,
               &batch->label_rows, &batch->labels);
  } else {
    batch->label_rows.push_back(static_cast<int32_t>(start));
    batch->labels.push_back(set.label(sample));
  }
}

double InMemoryData::MaskedLmBaseline() const {
  const SpecialTokens& special = tokenizer_->special_tokens();
  std::vector<int64_t> counts(vocabulary_size(), 1);
  int64_t total = vocabulary_size();
  std::vector<int32_t> ids(options_.max_length);
  for (int64_t sample = 0; sample < train_samples(); ++sample) {
    samples_.train.CopyTokens(sample, ids.data());
    for (int32_t i = 0; i < samples_.train.length(sample); ++i) {
      if (special.Contains(ids[i])) continue;
      ++counts[ids[i]];
      ++total;
    }
  }
  double loss = 0;
  int64_t labels = 0;
  Batch batch;
  for (int64_t i = 0; i < validation_samples(); ++i) {
    if (!ValidationBatch(i, 1, &batch).ok()) break;
    for (const int32_t label : batch.labels) {
      loss -= std::log(static_cast<double>(counts[label]) /
                       static_cast<double>(total));
      ++labels;
    }
  }
  return labels == 0 ? 0 : loss / static_cast<double>(labels);
}

double InMemoryData::ClassifierBaseline() const {
  std::vector<int64_t> counts(std::max(options_.classes, 1), 1);
  for (int64_t i = 0; i < train_samples(); ++i) {
    ++counts[samples_.train.label(i)];
  }
  const double total = static_cast<double>(train_samples()) + counts.size();
  double loss = 0;
  for (int64_t i = 0; i < validation_samples(); ++i) {
    loss -= std::log(static_cast<double>(counts[samples_.validation.label(i)]) /
                     total);
  }
  return loss / static_cast<double>(validation_samples());
}

}  // namespace comera::trainer
