// Serves shuffled batches from samples held in memory.
#include "worker/trainer/data/batch/in_memory_data.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace comera::trainer {

InMemoryData::InMemoryData(const Options& options, SampleSets samples,
                           std::unique_ptr<Tokenizer> tokenizer)
    : ShuffledData(options.max_length, options.seed, options.format,
                   std::move(tokenizer)),
      options_(options),
      samples_(std::move(samples)) {
  baseline_loss_ = masked_lm() ? MaskedLmBaseline() : ClassifierBaseline();
}

absl::Status InMemoryData::Fill(Part part, int64_t sample, const MaskKey& key,
                                int64_t row, Batch* batch) const {
  const SampleSet& set = part == Part::kTrain        ? samples_.train
                         : part == Part::kValidation ? samples_.validation
                                                     : samples_.test;
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
    MaskTokens(key, options_.mask_probability, tokenizer().special_tokens(),
               vocabulary_size(), static_cast<int32_t>(start), ids, length,
               &batch->label_rows, &batch->labels);
  } else {
    batch->label_rows.push_back(static_cast<int32_t>(start));
    batch->labels.push_back(set.label(sample));
  }
  return absl::OkStatus();
}

std::vector<int64_t> InMemoryData::StoredCounts() const {
  std::vector<int64_t> counts(vocabulary_size(), 0);
  std::vector<int32_t> ids(options_.max_length);
  for (int64_t sample = 0; sample < train_samples(); ++sample) {
    samples_.train.CopyTokens(sample, ids.data());
    for (int32_t i = 0; i < samples_.train.length(sample); ++i) {
      ++counts[ids[i]];
    }
  }
  return counts;
}

std::vector<int64_t> InMemoryData::TokenCounts() const {
  std::vector<int64_t> counts = StoredCounts();
  if (!masked_lm()) return counts;
  const SpecialTokens& special = tokenizer().special_tokens();
  int64_t maskable = 0;
  for (int32_t id = 0; id < vocabulary_size(); ++id) {
    if (!special.Contains(id)) maskable += counts[id];
  }
  counts[special.mask] += static_cast<int64_t>(
      kMaskShare * options_.mask_probability * static_cast<double>(maskable));
  return counts;
}

double InMemoryData::MaskedLmBaseline() const {
  const SpecialTokens& special = tokenizer().special_tokens();
  std::vector<int64_t> counts = StoredCounts();
  int64_t total = 0;
  for (int32_t id = 0; id < vocabulary_size(); ++id) {
    if (special.Contains(id)) counts[id] = 0;
    total += ++counts[id];
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
