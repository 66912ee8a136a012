// Finds the distinct ids of a batch and where each is used.
#include "worker/trainer/model/plan/unique_ids.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::trainer {

UniqueIds::UniqueIds(std::string what, int64_t max_ids, int64_t limit,
                     int64_t always)
    : what_(std::move(what)),
      max_ids_(max_ids),
      limit_(limit),
      always_(always),
      sorter_(max_ids) {
  const int64_t max_unique = always + std::min(max_ids, limit - always);
  unique_.reserve(max_unique);
  index_.reserve(max_ids);
  start_.reserve(max_unique + 1);
  start_.push_back(0);
}

absl::Status UniqueIds::Set(absl::Span<const int32_t> ids) {
  if (static_cast<int64_t>(ids.size()) > max_ids_) {
    return absl::InvalidArgumentError(absl::StrCat(
        ids.size(), " ", what_, "s, planned for at most ", max_ids_));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= limit_) {
      return absl::InvalidArgumentError(
          absl::StrCat(what_, " ", ids[i], " at ", i,
                       " is outside the vocabulary of ", limit_));
    }
  }
  order_ = sorter_.Sort(ids, limit_);
  unique_.clear();
  start_.clear();
  index_.resize(ids.size());
  const auto begin = [this](int32_t id, size_t place) {
    unique_.push_back(id);
    start_.push_back(static_cast<int32_t>(place));
  };
  for (size_t q = 0; q < order_.size(); ++q) {
    const int32_t id = ids[order_[q]];
    while (count() < always_ && count() <= id) {
      begin(static_cast<int32_t>(count()), q);
    }
    if (unique_.empty() || id != unique_.back()) begin(id, q);
    index_[order_[q]] = static_cast<int32_t>(count()) - 1;
  }
  while (count() < always_) {
    begin(static_cast<int32_t>(count()), order_.size());
  }
  start_.push_back(static_cast<int32_t>(order_.size()));
  return absl::OkStatus();
}

void UniqueIds::PadTo(int64_t padded) {
  start_.resize(std::max<size_t>(start_.size(), padded + 1), start_.back());
}

absl::Status CheckUniqueIds(absl::Span<const int32_t> ids, int64_t max_ids,
                            int64_t rows) {
  if (static_cast<int64_t>(ids.size()) > max_ids) {
    return absl::InvalidArgumentError(absl::StrCat(
        ids.size(), " rows of a table, planned for at most ", max_ids));
  }
  int64_t before = -1;
  for (int32_t id : ids) {
    if (id <= before || id >= rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", id, " after ", before, " of a table of ", rows,
                       ": not ascending or outside"));
    }
    before = id;
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
