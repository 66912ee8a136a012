// Pads the ids of a batch and copies them to the device.
#include "worker/trainer/model/embedding/table_ids.h"

#include "common/status_macros.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::trainer {

TableIds::TableIds(const Plan& plan, const std::string& name, int64_t rows,
                   int64_t max_ids)
    : plan_(plan), rows_(rows), max_ids_(max_ids) {
  padded_ids_.reserve(max_ids);
  ids_ = plan.saved->Reserve(name + ".ids", max_ids * sizeof(int32_t));
}

absl::Status TableIds::Set(absl::Span<const int32_t> ids, int64_t padded_rows) {
  RETURN_IF_ERROR(CheckUniqueIds(ids, max_ids_, rows_));
  padded_ids_.assign(ids.begin(), ids.end());
  // Rows of which nobody has a gradient, different ones.
  while (static_cast<int64_t>(padded_ids_.size()) < padded_rows) {
    padded_ids_.push_back(static_cast<int32_t>(padded_ids_.size() % rows_));
  }
  count_ = static_cast<int64_t>(padded_ids_.size());
  return plan_.backend->CopyToDevice(
      plan_.saved->Address(ids_), padded_ids_.data(), count_ * sizeof(int32_t));
}

}  // namespace comera::trainer
