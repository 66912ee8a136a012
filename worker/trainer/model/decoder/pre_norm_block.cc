// Adds a branch of the normalised residual stream to the stream.
#include "worker/trainer/model/decoder/pre_norm_block.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

using kernels::DropoutKey;
using kernels::Matrix;
using kernels::Vector;

PreNormBlock::PreNormBlock(const Plan& plan, const std::string& name,
                           const std::string& key, uint32_t site,
                           std::unique_ptr<Branch> branch)
    : plan_(plan),
      hidden_(plan.config->hidden),
      site_(site),
      norm_(plan, name + ".norm"),
      branch_(std::move(branch)) {
  if (branch_ == nullptr) return;
  const int64_t row_bytes = plan.max_rows * int64_t{sizeof(float)};
  const int64_t stream = hidden_ * row_bytes;
  branch_rows_ = plan.workspace->Reserve("block.rows", stream);
  grad_branch_ = plan.workspace->Reserve("block.branch",
                                         plan.config->dropout > 0 ? stream : 0);
  if (!branch_->reads_input()) return;
  normalised_ = plan.saved->Reserve(key + ".normalised", stream);
  deviation_ = plan.saved->Reserve(key + ".deviation", row_bytes);
}

DropoutKey PreNormBlock::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, site_);
}

Matrix PreNormBlock::Normalised(int64_t rows) const {
  return Matrix(plan_.saved->Floats(normalised_), rows, hidden_);
}

Vector PreNormBlock::Deviation(int64_t rows) const {
  return {plan_.saved->Floats(deviation_), rows};
}

Matrix PreNormBlock::BranchRows(int64_t rows) const {
  return Matrix(plan_.workspace->Floats(branch_rows_), rows, hidden_);
}

absl::Status PreNormBlock::Contract(const Step& step) {
  return branch_ == nullptr ? absl::OkStatus() : branch_->Contract(step);
}

absl::Status PreNormBlock::FinishBackward(const Step& step) {
  return branch_ == nullptr ? absl::OkStatus() : branch_->FinishBackward(step);
}

absl::Status PreNormBlock::Forward(const Step& step, Matrix stream) {
  if (branch_ == nullptr) return absl::OkStatus();
  const int64_t rows = stream.rows;
  const Matrix y = BranchRows(rows);
  if (branch_->reads_input()) {
    RETURN_IF_ERROR(
        norm_.Forward(step, stream, Normalised(rows), Deviation(rows), y));
  }
  RETURN_IF_ERROR(branch_->Forward(step, y, y));
  const DropoutKey dropout = Dropout(step);
  if (dropout.rate > 0) RETURN_IF_ERROR(plan_.backend->Dropout(dropout, y, y));
  return plan_.backend->Axpy(1, {y.data, rows * hidden_},
                             {stream.data, rows * hidden_});
}

absl::Status PreNormBlock::Backward(const Step& step, Matrix grad,
                                    Matrix scratch) {
  if (branch_ == nullptr) return absl::OkStatus();
  kernels::Backend& backend = *plan_.backend;
  const int64_t rows = grad.rows;
  Matrix grad_branch = grad;
  const DropoutKey dropout = Dropout(step);
  if (dropout.rate > 0) {
    grad_branch = Matrix(plan_.workspace->Floats(grad_branch_), rows, hidden_);
    RETURN_IF_ERROR(backend.Dropout(dropout, grad, grad_branch));
  }
  const Matrix grad_input = BranchRows(rows);
  if (!branch_->reads_input()) {
    return branch_->Backward(step, scratch, grad_branch, grad_input);
  }
  RETURN_IF_ERROR(norm_.Repeat(step, Normalised(rows), scratch));
  RETURN_IF_ERROR(backend.Fill({grad_input.data, rows * hidden_}, 0));
  RETURN_IF_ERROR(branch_->Backward(step, scratch, grad_branch, grad_input));
  return norm_.Backward(step, grad_input, Normalised(rows), Deviation(rows),
                        grad, /*accumulate=*/true);
}

}  // namespace comera::trainer
