// Packs the tokens of a batch without the padding of its samples.
#include "worker/trainer/model/plan/packed_batch.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace comera::trainer {

PackedBatch::PackedBatch(int64_t max_sequences, int64_t max_tokens,
                         int64_t row_stride)
    : row_stride_(row_stride) {
  row_ids_.reserve(max_tokens);
  offsets_.reserve(max_sequences + 1);
  lengths_.reserve(max_sequences);
  order_.reserve(max_sequences);
  places_.reserve(max_tokens);
  token_at_.reserve(max_tokens);
  offsets_.push_back(0);
}

absl::Status PackedBatch::Set(const Batch& batch) {
  const int64_t rows = batch.size * batch.length;
  if (static_cast<int64_t>(batch.mask.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: mask of ", batch.mask.size(), " for ", rows, " tokens"));
  }
  lengths_.assign(batch.size, 0);
  for (int64_t i = 0; i < rows; ++i) {
    int32_t& length = lengths_[i / batch.length];
    if (batch.mask[i] == 1 && length == i % batch.length) {
      ++length;
    } else if (batch.mask[i] != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: the mask is ", batch.mask[i], " at token ",
                       i % batch.length, " of sample ", i / batch.length,
                       ", not ones followed by zeros for padding"));
    }
  }
  order_.resize(batch.size);
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [this](int32_t a, int32_t b) {
    return lengths_[a] != lengths_[b] ? lengths_[a] > lengths_[b] : a < b;
  });
  max_length_ = lengths_[order_[0]];
  offsets_.assign(1, 0);
  places_.clear();
  row_ids_.clear();
  token_at_.assign(rows, -1);
  for (int32_t sample : order_) {
    if (lengths_[sample] == 0) break;
    for (int64_t j = 0; j < lengths_[sample]; ++j) {
      const int64_t place = sample * batch.length + j;
      token_at_[place] = static_cast<int32_t>(places_.size());
      places_.push_back(static_cast<int32_t>(place));
      row_ids_.push_back(static_cast<int32_t>(sample * row_stride_ + j));
    }
    offsets_.push_back(static_cast<int32_t>(places_.size()));
  }
  return absl::OkStatus();
}

void PackedBatch::PadTo(int64_t tokens, int64_t sequences, int64_t length) {
  if (places_.empty()) return;
  max_length_ = length;
  while (this->tokens() < tokens) {
    const int64_t end = std::min(tokens, this->tokens() + length);
    for (int64_t i = 0; this->tokens() < end; ++i) {
      places_.push_back(places_[i]);
      row_ids_.push_back(row_ids_[i]);
    }
    offsets_.push_back(static_cast<int32_t>(end));
  }
  while (this->sequences() < sequences) offsets_.push_back(offsets_.back());
}

}  // namespace comera::trainer
