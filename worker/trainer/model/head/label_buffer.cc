// Checks the labels of a batch and copies them to the device.
#include "worker/trainer/model/head/label_buffer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstIndices;

LabelBuffer::LabelBuffer(const Plan& plan, int64_t max_labels, int64_t outputs)
    : plan_(plan),
      max_labels_(max_labels),
      outputs_(outputs),
      device_rows_(plan.memory->whole()->Reserve("head.label_rows",
                                                 max_labels * sizeof(int32_t))),
      device_labels_(plan.memory->whole()->Reserve(
          "head.labels", max_labels * sizeof(int32_t))) {
  rows_.reserve(max_labels);
  labels_.reserve(max_labels);
}

absl::Status LabelBuffer::Set(const Batch& batch, const PackedBatch& packed,
                              int64_t padded_size) {
  const int64_t count = static_cast<int64_t>(batch.labels.size());
  if (batch.label_rows.size() != batch.labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: ", batch.label_rows.size(), " label rows for ",
                     count, " labels"));
  }
  if (count > max_labels_) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: ", count, " labels, at most ", max_labels_));
  }
  int64_t least = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = batch.label_rows[i];
    if (row < least || row >= batch.size * batch.length) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch: label row ", row, " is out of range or not ascending"));
    }
    if (packed.TokenAt(row) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: label row ", row, " is padding"));
    }
    least = row + 1;
    if (batch.labels[i] < 0 || batch.labels[i] >= outputs_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch: label ", batch.labels[i], " is outside [0, ", outputs_, ")"));
    }
  }
  count_ = count;
  // A batch without tokens is not padded.
  const int64_t size =
      packed.tokens() > 0 ? std::max(count, padded_size) : count;
  rows_.resize(size);
  for (int64_t i = 0; i < count; ++i) {
    rows_[i] = packed.TokenAt(batch.label_rows[i]);
  }
  for (int64_t i = count; i < size; ++i) {
    // The padding uses different rows, so that sums over equal rows stay short.
    rows_[i] = static_cast<int32_t>(i % packed.tokens());
  }
  labels_ = batch.labels;
  labels_.resize(size, -1);
  const int64_t bytes = size * int64_t{sizeof(int32_t)};
  RETURN_IF_ERROR(plan_.backend->CopyToDevice(
      plan_.saved->Address(device_rows_), rows_.data(), bytes));
  return plan_.backend->CopyToDevice(plan_.saved->Address(device_labels_),
                                     labels_.data(), bytes);
}

ConstIndices LabelBuffer::Rows(int64_t first, int64_t count) const {
  return {plan_.saved->Ints(device_rows_) + first, count};
}

ConstIndices LabelBuffer::Labels(int64_t first, int64_t count) const {
  return {plan_.saved->Ints(device_labels_) + first, count};
}

}  // namespace comera::trainer
