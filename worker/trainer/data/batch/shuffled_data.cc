// Serves samples of tokens in shuffled order.
#include "worker/trainer/data/batch/shuffled_data.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/deal_samples.h"
#include "worker/trainer/data/random/permutation.h"

namespace comera::trainer {
namespace {

// Rows of a batch are 32-bit.
constexpr int64_t kMaxBatchTokens = std::numeric_limits<int32_t>::max();

}  // namespace

ShuffledData::ShuffledData(int32_t max_length, uint64_t seed,
                           InputFormat format,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : max_length_(max_length),
      seed_(seed),
      format_(std::move(format)),
      tokenizer_(std::move(tokenizer)) {}

absl::Status ShuffledData::TrainBatch(int64_t step, int64_t batch_size,
                                      int rank, int world_size,
                                      Batch* batch) const {
  if (step < 0 || batch_size < 1 || world_size < 1 || rank < 0 ||
      rank >= world_size || batch_size % world_size != 0 ||
      batch_size > kMaxBatchTokens / max_length_ ||
      step > std::numeric_limits<int64_t>::max() / batch_size - 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("training batch: step ", step, ", batch size ", batch_size,
                     ", rank ", rank, " of ", world_size));
  }
  const auto count = static_cast<uint64_t>(train_samples());
  // The sample at place `i` of the global batch.
  const auto sample_at = [&](int64_t i) {
    const auto number = static_cast<uint64_t>(step * batch_size + i);
    return static_cast<int64_t>(PermutedIndex(seed_, RandomStream::kEpochOrder,
                                              number / count, count,
                                              number % count));
  };
  const int64_t share = batch_size / world_size;
  Clear(share, share * rank, batch);
  if (world_size > 1) {
    std::vector<int32_t> lengths(batch_size);
    for (int64_t i = 0; i < batch_size; ++i) {
      lengths[i] = TrainLength(sample_at(i));
    }
    batch->samples = DealSamples(lengths, rank, world_size);
    batch->first_sample = batch->samples.front();
  }
  for (int64_t row = 0; row < share; ++row) {
    const int64_t place = batch->SampleAt(row);
    const MaskKey key{seed_, RandomStream::kTrainMask,
                      static_cast<uint64_t>(step),
                      static_cast<uint64_t>(place)};
    RETURN_IF_ERROR(Fill(Part::kTrain, sample_at(place), key, row, batch));
  }
  return absl::OkStatus();
}

absl::Status ShuffledData::ValidationBatch(int64_t first, int64_t count,
                                           Batch* batch) const {
  return HeldOutBatch(Part::kValidation, validation_samples(),
                      RandomStream::kValidationOrder,
                      RandomStream::kValidationMask, first, count, batch);
}

absl::Status ShuffledData::TestBatch(int64_t first, int64_t count,
                                     Batch* batch) const {
  return HeldOutBatch(Part::kTest, test_samples(), RandomStream::kTestOrder,
                      RandomStream::kTestMask, first, count, batch);
}

absl::Status ShuffledData::HeldOutBatch(Part part, int64_t size,
                                        RandomStream order, RandomStream masks,
                                        int64_t first, int64_t count,
                                        Batch* batch) const {
  if (first < 0 || first > size || count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation or test batch: samples from ", first, ", ",
                     count, ", of ", size));
  }
  count = std::min({count, size - first, kMaxBatchTokens / max_length_});
  Clear(count, first, batch);
  for (int64_t row = 0; row < count; ++row) {
    const auto number = static_cast<uint64_t>(first + row);
    const uint64_t sample =
        PermutedIndex(seed_, order, 0, static_cast<uint64_t>(size), number);
    RETURN_IF_ERROR(Fill(part, static_cast<int64_t>(sample),
                         MaskKey{seed_, masks, 0, number}, row, batch));
  }
  return absl::OkStatus();
}

absl::Status ShuffledData::SaveTokenizer(const std::string& directory) const {
  RETURN_IF_ERROR(MakeDirectories(directory));
  RETURN_IF_ERROR(SaveInputFormat(format_, directory));
  return tokenizer_->Save(directory);
}

void ShuffledData::Clear(int64_t size, int64_t first_sample,
                         Batch* batch) const {
  const size_t tokens = static_cast<size_t>(size * max_length_);
  batch->size = size;
  batch->length = max_length_;
  batch->first_sample = first_sample;
  batch->samples.clear();
  batch->ids.assign(tokens, tokenizer_->special_tokens().pad);
  batch->segments.assign(tokens, 0);
  batch->mask.assign(tokens, 0.0f);
  batch->label_rows.clear();
  batch->labels.clear();
}

}  // namespace comera::trainer
