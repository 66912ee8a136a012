// Puts dense rows into a table that was computed from cores.
#include "worker/trainer/model/embedding/dense_token_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::ConstIndices;
using kernels::ConstMatrix;
using kernels::Matrix;

DenseTokenRows::DenseTokenRows(const Plan& plan, const std::string& table,
                               const std::vector<int32_t>& tokens,
                               int64_t block_rows)
    : plan_(plan),
      width_(plan.config->hidden),
      block_rows_(block_rows),
      tokens_(tokens) {
  if (tokens_.empty()) return;
  parameter_ = &plan.At(table + ".dense_rows");
  const auto count = static_cast<int64_t>(tokens_.size());
  rows_ = plan.memory->whole()->Reserve(
      absl::StrCat(table, ".dense_token_rows"),
      count * static_cast<int64_t>(sizeof(int32_t)));
  scratch_ = plan.workspace->Reserve(
      "dense_token_rows", count * width_ * static_cast<int64_t>(sizeof(float)));
}

absl::Status DenseTokenRows::SetUp() {
  if (parameter_ == nullptr || set_up_) return absl::OkStatus();
  std::vector<int32_t> rows = tokens_;
  for (int32_t& row : rows) row = static_cast<int32_t>(row % block_rows_);
  RETURN_IF_ERROR(
      plan_.backend->CopyToDevice(plan_.memory->whole()->Address(rows_),
                                  rows.data(), rows.size() * sizeof(int32_t)));
  set_up_ = true;
  return absl::OkStatus();
}

DenseTokenRows::Range DenseTokenRows::RangeOf(int64_t block) const {
  const auto first =
      std::lower_bound(tokens_.begin(), tokens_.end(), block * block_rows_);
  const auto end =
      std::lower_bound(first, tokens_.end(), (block + 1) * block_rows_);
  return {first - tokens_.begin(), end - first};
}

ConstIndices DenseTokenRows::RowsOf(const Range& range) const {
  return {plan_.memory->whole()->Ints(rows_) + range.first, range.count};
}

absl::Status DenseTokenRows::Put(const Step& step, int64_t block,
                                 Matrix rows) const {
  const Range range = RangeOf(block);
  if (range.count == 0) return absl::OkStatus();
  const float* const values = step.parameters + parameter_->offset;
  return plan_.backend->PutRows(
      ConstMatrix(values + range.first * width_, range.count, width_),
      RowsOf(range), rows);
}

absl::Status DenseTokenRows::MoveGradient(const Step& step, int64_t block,
                                          Matrix grad_rows) const {
  const Range range = RangeOf(block);
  if (range.count == 0) return absl::OkStatus();
  kernels::Backend& backend = *plan_.backend;
  const Matrix scratch(plan_.workspace->Floats(scratch_), range.count, width_);
  const int64_t size = range.count * width_;
  RETURN_IF_ERROR(backend.GatherRows(grad_rows, RowsOf(range), scratch));
  RETURN_IF_ERROR(backend.Axpy(
      1, {scratch.data, size},
      {step.Gradient(*parameter_).data + range.first * width_, size}));
  RETURN_IF_ERROR(backend.Fill({scratch.data, size}, 0));
  return backend.PutRows(scratch, RowsOf(range), grad_rows);
}

}  // namespace comera::trainer
