// Chooses where the cores of an embedding table are split by what it costs.
#include "kernels/contraction/ttm_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

absl::Status Check(const TtmShape& shape, int64_t max_rows) {
  RETURN_IF_ERROR(ValidateShape(shape));
  int64_t rows = 1;
  for (int64_t mode : shape.row_modes) rows *= mode;
  if (rows > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a table of ", rows, " rows has too many for its ids"));
  }
  if (max_rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat(max_rows, " rows"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TtmPlan> TtmPlan::Create(TtmShape shape, int64_t max_rows) {
  RETURN_IF_ERROR(Check(shape, max_rows));
  int best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int split = 1; split < shape.order(); ++split) {
    const double cost = TtmPlan(shape, kTypicalRows, split).cost();
    if (cost < least) {
      least = cost;
      best = split;
    }
  }
  return TtmPlan(std::move(shape), max_rows, best);
}

absl::StatusOr<TtmPlan> TtmPlan::Create(TtmShape shape, int64_t max_rows,
                                        int split) {
  RETURN_IF_ERROR(Check(shape, max_rows));
  if (split < 1 || split >= shape.order()) {
    return absl::InvalidArgumentError(
        absl::StrCat("split ", split, " of ", shape.order(), " cores"));
  }
  return TtmPlan(std::move(shape), max_rows, split);
}

TtmPlan::TtmPlan(TtmShape shape, int64_t max_rows, int split)
    : shape_(std::move(shape)), split_(split) {
  const int order = shape_.order();
  rows_from_.assign(order + 1, 1);
  for (int k = order - 1; k >= 0; --k) {
    rows_from_[k] = rows_from_[k + 1] * shape_.row_modes[k];
  }
  max_rows_ = std::min(max_rows, table_rows());

  TtmFactor prefix = {0, -1};
  for (int k = 1; k < split; ++k) {
    AddStep(prefix, {k, -1},
            std::min(max_rows_, table_rows() / rows_from_[k + 1]));
    prefix = {-1, static_cast<int>(steps_.size()) - 1};
  }
  TtmFactor suffix = {order - 1, -1};
  for (int k = order - 2; k >= split; --k) {
    AddStep({k, -1}, suffix, std::min(max_rows_, rows_from_[k]));
    suffix = {-1, static_cast<int>(steps_.size()) - 1};
  }
  AddStep(prefix, suffix, max_rows_);
}

int64_t TtmPlan::BlockRows(const TtmFactor& factor) const {
  return factor.core >= 0 ? shape_.row_modes[factor.core]
                          : steps_[factor.step].max_pairs;
}

void TtmPlan::AddStep(TtmFactor left, TtmFactor right, int64_t max_pairs) {
  TtmStep step;
  step.left = left;
  step.right = right;
  step.max_pairs = max_pairs;
  TtmTables& t = step.tables;
  t.left_rows = BlockRows(left);
  t.right_rows = BlockRows(right);
  if (left.core >= 0) {
    t.left_outer = shape_.LeftRank(left.core);
    t.left_inner = shape_.col_modes[left.core];
    t.rank = shape_.RightRank(left.core);
  }
  if (right.core >= 0) {
    t.rank = shape_.LeftRank(right.core);
    t.right_cols = shape_.col_modes[right.core] * shape_.RightRank(right.core);
  }
  // What a step computed is a prefix, (columns, rank), or a suffix, (rank,
  // columns).
  if (left.step >= 0) {
    const TtmFactor& last = steps_[left.step].right;
    t.rank = shape_.RightRank(last.core);
    const TtmTables& from = steps_[left.step].tables;
    t.left_inner = from.left_inner * shape_.col_modes[last.core];
  }
  if (right.step >= 0) {
    const TtmTables& from = steps_[right.step].tables;
    t.rank = from.left_outer;
    t.right_cols = from.left_inner * from.right_cols;
    t.right_blocks = true;
  }
  cost_ += static_cast<double>(max_pairs) * static_cast<double>(step.Width()) *
           static_cast<double>(t.rank);
  steps_.push_back(step);
}

double RowByRowCost(const TtmShape& shape, int64_t rows) {
  double cost = 0, cols = static_cast<double>(shape.col_modes[0]);
  for (int k = 1; k < shape.order(); ++k) {
    cost += cols * static_cast<double>(shape.CoreSize(k) / shape.row_modes[k]);
    cols *= static_cast<double>(shape.col_modes[k]);
  }
  return cost * static_cast<double>(rows);
}

}  // namespace comera::kernels
