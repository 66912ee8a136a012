// Finds the distinct rows of a batch and the pairs of blocks they need.
#include "kernels/contraction/ttm_index.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

absl::Status CheckRows(absl::Span<const int32_t> rows, const TtmPlan& plan) {
  if (static_cast<int64_t>(rows.size()) > plan.max_rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        rows.size(), " rows, planned for at most ", plan.max_rows()));
  }
  int64_t before = -1;
  for (int32_t row : rows) {
    if (row <= before || row >= plan.table_rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", row, " after ", before, " of a table of ",
                       plan.table_rows(), ": not ascending, or beyond it"));
    }
    before = row;
  }
  return absl::OkStatus();
}

}  // namespace

TtmIndex::TtmIndex(const TtmPlan& plan)
    : plan_(plan), sorter_(plan.max_rows()) {
  int64_t at = 0;
  for (const TtmStep& planned : plan_.steps()) {
    Step step;
    step.left_at = at;
    step.out_at = step.left_at + planned.max_pairs;
    step.start_at = step.out_at + planned.max_pairs;
    at = step.start_at + planned.tables.right_rows + 1;
    steps_.push_back(step);
  }
  lists_.resize(at);
  for (std::vector<int32_t>* each :
       {&keys_, &left_, &row_prefix_, &prefixes_, &suffixes_, &longer_}) {
    each->reserve(plan_.max_rows());
  }
}

void TtmIndex::CutPrefixes(absl::Span<const int32_t> values, int64_t divisor,
                           int cores) {
  prefixes_.clear();
  left_.clear();
  for (int32_t value : values) {
    const int32_t prefix = static_cast<int32_t>(value / divisor);
    if (prefixes_.empty() || prefix != prefixes_.back()) {
      prefixes_.push_back(prefix);
    }
    // A prefix of one core is a block of that core.
    left_.push_back(cores == 1 ? prefix
                               : static_cast<int32_t>(prefixes_.size()) - 1);
  }
}

void TtmIndex::Fill(int index, int64_t limit) {
  Step& step = steps_[index];
  const absl::Span<const int32_t> order = sorter_.Sort(keys_, limit);
  int32_t* left = lists_.data() + step.left_at;
  int32_t* out = lists_.data() + step.out_at;
  int32_t* start = lists_.data() + step.start_at;
  const bool core = plan_.steps()[index].right.core >= 0;
  step.pairs = static_cast<int64_t>(order.size());
  step.right_rows = 0;
  suffixes_.clear();
  for (int32_t q = 0; q < step.pairs; ++q) {
    const int32_t i = order[q], key = keys_[i];
    left[q] = left_[i];
    out[q] = i;
    if (core) {
      while (step.right_rows <= key) start[step.right_rows++] = q;
    } else if (suffixes_.empty() || key != suffixes_.back()) {
      suffixes_.push_back(key);
      start[step.right_rows++] = q;
    }
  }
  while (core && step.right_rows < limit) {
    start[step.right_rows++] = static_cast<int32_t>(step.pairs);
  }
  start[step.right_rows] = static_cast<int32_t>(step.pairs);
}

void TtmIndex::MakeRoom(int index, int64_t room) {
  const TtmStep& planned = plan_.steps()[index];
  Step& step = steps_[index];
  step.pairs = std::min(planned.max_pairs, room);
  if (planned.right.step < 0) return;
  // Suffixes that no pair has.
  int32_t* start = lists_.data() + step.start_at;
  const int64_t right_rows =
      std::min(plan_.steps()[planned.right.step].max_pairs, room);
  std::fill(start + step.right_rows + 1, start + right_rows + 1,
            start[step.right_rows]);
  step.right_rows = right_rows;
}

absl::Status TtmIndex::Set(absl::Span<const int32_t> rows, int64_t room) {
  RETURN_IF_ERROR(CheckRows(rows, plan_));
  if (room > plan_.max_rows() ||
      (room > 0 && room < static_cast<int64_t>(rows.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("room for ", room, " rows, there are ", rows.size(),
                     " and at most ", plan_.max_rows(), " planned"));
  }
  const int split = plan_.split(), order = plan_.shape().order();
  const int last = order - 2;
  // Prefixes from the longest to those of two cores.
  CutPrefixes(rows, plan_.RowsFrom(split), split);
  row_prefix_ = left_;
  for (int k = split - 1; k >= 1; --k) {
    const int64_t mode = plan_.shape().row_modes[k];
    longer_.swap(prefixes_);
    keys_.clear();
    for (int32_t prefix : longer_) {
      keys_.push_back(static_cast<int32_t>(prefix % mode));
    }
    CutPrefixes(longer_, mode, k);
    Fill(k - 1, mode);
  }
  // The rows, then suffixes from the longest to those of two cores.
  left_.swap(row_prefix_);
  keys_.clear();
  for (int32_t row : rows) {
    keys_.push_back(static_cast<int32_t>(row % plan_.RowsFrom(split)));
  }
  Fill(last, plan_.RowsFrom(split));
  for (int k = split; k <= last; ++k) {
    longer_.swap(suffixes_);
    keys_.clear();
    left_.clear();
    for (int32_t suffix : longer_) {
      keys_.push_back(static_cast<int32_t>(suffix % plan_.RowsFrom(k + 1)));
      left_.push_back(static_cast<int32_t>(suffix / plan_.RowsFrom(k + 1)));
    }
    Fill(split - 1 + last - k, plan_.RowsFrom(k + 1));
  }
  for (int i = 0; room > 0 && i <= last; ++i) MakeRoom(i, room);
  return absl::OkStatus();
}

TtmTables TtmIndex::Tables(int step) const {
  const TtmStep& planned = plan_.steps()[step];
  TtmTables tables = planned.tables;
  if (planned.left.step >= 0) {
    tables.left_rows = steps_[planned.left.step].pairs;
  }
  tables.right_rows = steps_[step].right_rows;
  return tables;
}

TtmPairs TtmIndex::Pairs(int index, const int32_t* lists) const {
  const Step& step = steps_[index];
  return {{lists + step.left_at, step.pairs},
          {lists + step.out_at, step.pairs},
          {lists + step.start_at, step.right_rows + 1}};
}

}  // namespace comera::kernels
