// Packs the tokens of a batch without the padding of its samples.
#include "worker/trainer/model/plan/packed_batch.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

// Rows of a dropout are 32-bit.
constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();

}  // namespace

PackedBatch::PackedBatch(int64_t max_sequences, int64_t max_tokens,
                         int64_t row_stride, bool by_document)
    : row_stride_(row_stride), by_document_(by_document) {
  row_ids_.reserve(max_tokens);
  if (by_document) positions_.reserve(max_tokens);
  offsets_.reserve(max_sequences + 1);
  sequences_.reserve(max_sequences);
  places_.reserve(max_tokens);
  token_at_.reserve(max_tokens);
  offsets_.push_back(0);
}

absl::Status PackedBatch::CheckDocument(const Batch& batch, int64_t row) const {
  const int64_t place = row % batch.length;
  const int32_t document = batch.segments[row];
  if (place == 0 ? document == 0 : document >= batch.segments[row - 1]) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "batch: document ", document, " at token ", place, " of sample ",
      row / batch.length, ", where they are numbered from 0 and in order"));
}

absl::Status PackedBatch::FindSequences(const Batch& batch) {
  sequences_.clear();
  bool padding = false;
  for (int64_t i = 0; i < batch.size * batch.length; ++i) {
    const bool first = i % batch.length == 0;
    if (first) padding = false;
    if (batch.mask[i] == 0) {
      padding = true;
      continue;
    }
    if (batch.mask[i] != 1 || padding) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: the mask is ", batch.mask[i], " at token ",
                       i % batch.length, " of sample ", i / batch.length,
                       ", not ones followed by zeros for padding"));
    }
    if (by_document_) RETURN_IF_ERROR(CheckDocument(batch, i));
    if (first || (by_document_ && batch.segments[i] != batch.segments[i - 1])) {
      sequences_.push_back({static_cast<int32_t>(i), 0});
    }
    ++sequences_.back().length;
  }
  return absl::OkStatus();
}

absl::Status PackedBatch::Set(const Batch& batch) {
  const int64_t rows = batch.size * batch.length;
  if (static_cast<int64_t>(batch.mask.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: mask of ", batch.mask.size(), " for ", rows, " tokens"));
  }
  if (by_document_ && static_cast<int64_t>(batch.segments.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.segments.size(), " segments for ", rows, " tokens"));
  }
  const bool dealt = !batch.samples.empty();
  if (dealt && (static_cast<int64_t>(batch.samples.size()) != batch.size ||
                batch.samples.back() >= kMaxRows / row_stride_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.samples.size(), " samples, up to number ",
        batch.samples.back(), " of the global batch, are dealt to a batch of ",
        batch.size, " with rows of ", row_stride_, " tokens"));
  }
  RETURN_IF_ERROR(FindSequences(batch));
  std::sort(sequences_.begin(), sequences_.end(),
            [](const Sequence& a, const Sequence& b) {
              return a.length != b.length ? a.length > b.length
                                          : a.place < b.place;
            });
  first_row_ = dealt ? 0 : batch.first_sample * row_stride_;
  max_length_ = sequences_.empty() ? 0 : sequences_.front().length;
  offsets_.assign(1, 0);
  places_.clear();
  row_ids_.clear();
  positions_.clear();
  token_at_.assign(rows, -1);
  for (const Sequence& sequence : sequences_) {
    for (int32_t j = 0; j < sequence.length; ++j) {
      const int32_t place = sequence.place + j;
      token_at_[place] = static_cast<int32_t>(places_.size());
      places_.push_back(place);
      const int64_t own = place / batch.length;
      const int64_t sample = dealt ? batch.samples[own] : own;
      row_ids_.push_back(
          static_cast<int32_t>(sample * row_stride_ + place % batch.length));
      if (by_document_) positions_.push_back(j);
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
      if (by_document_) positions_.push_back(positions_[i]);
    }
    offsets_.push_back(static_cast<int32_t>(end));
  }
  while (this->sequences() < sequences) offsets_.push_back(offsets_.back());
}

}  // namespace comera::trainer
