// Adds a branch to the residual stream and normalises the sum.
#include "worker/trainer/model/encoder/residual_block.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::DropoutKey;
using kernels::Matrix;

namespace {

// x as a matrix: its own rows or, computed, `scratch`.
absl::StatusOr<ConstMatrix> RowsOf(const StreamInput& x,
                                   kernels::Backend* backend, Matrix scratch) {
  if (x.gamma.data == nullptr) return x.rows;
  RETURN_IF_ERROR(
      backend->LayerNormOutput({}, x.rows, x.gamma, x.beta, scratch));
  return ConstMatrix(scratch);
}

}  // namespace

ResidualBlock::ResidualBlock(const Plan& plan, const std::string& name,
                             const std::string& key, uint32_t site,
                             std::unique_ptr<Branch> branch)
    : plan_(plan),
      hidden_(plan.config->hidden),
      site_(site),
      gamma_(plan.At(name + ".norm.gamma")),
      beta_(plan.At(name + ".norm.beta")),
      branch_(std::move(branch)),
      rank_space_(branch_->rank_space()),
      last_(rank_space_ == nullptr ? nullptr : rank_space_->last()) {
  const int64_t row_bytes = plan.max_rows * int64_t{sizeof(float)};
  normalised_ = plan.saved->Reserve(key + ".normalised", hidden_ * row_bytes);
  deviation_ = plan.saved->Reserve(key + ".deviation", row_bytes);
  if (last_ == nullptr) {
    grad_branch_ = plan.workspace->Reserve("block.branch", hidden_ * row_bytes);
    return;
  }
  grad_t_ = plan.workspace->Reserve("block.grad_t", last_->rank() * row_bytes);
  tiles_ = plan.workspace->Reserve("linear.tiles",
                                   plan.backend->RankSpaceStreamWorkspaceBytes(
                                       plan.max_rows, last_->rank(), hidden_));
}

DropoutKey ResidualBlock::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout, site_);
}

Matrix ResidualBlock::Normalised(int64_t rows) const {
  return Matrix(plan_.saved->Floats(normalised_), rows, hidden_);
}

kernels::Vector ResidualBlock::Deviation(int64_t rows) const {
  return {plan_.saved->Floats(deviation_), rows};
}

StreamInput ResidualBlock::output(const Step& step) const {
  return {Normalised(step.rows()), step.Vector(gamma_), step.Vector(beta_)};
}

absl::Status ResidualBlock::Forward(const Step& step, Matrix stream) {
  const Matrix normalised = Normalised(stream.rows);
  if (last_ == nullptr) {
    RETURN_IF_ERROR(branch_->Forward(step, stream, normalised));
    return plan_.backend->ResidualLayerNorm(
        Dropout(step), normalised, stream, step.Vector(gamma_),
        step.Vector(beta_), plan_.config->layer_norm_epsilon, normalised,
        Deviation(stream.rows), stream);
  }
  RETURN_IF_ERROR(rank_space_->ForwardToRankSpace(step, stream));
  return plan_.backend->ExpandLayerNorm(
      Dropout(step), last_->TWithOnes(0, stream.rows), last_->BWithBias(),
      stream, step.Vector(gamma_), step.Vector(beta_),
      plan_.config->layer_norm_epsilon, normalised, Deviation(stream.rows),
      stream, plan_.workspace->Floats(tiles_));
}

absl::Status ResidualBlock::Backward(const Step& step, const StreamInput& x,
                                     Matrix grad, Matrix scratch) {
  if (last_ != nullptr) return BackwardFromRankSpace(step, x, grad);
  const DropoutKey dropout = Dropout(step);
  // Without dropout the branch's gradient is the residual's.
  const Matrix branch(
      dropout.rate > 0 ? plan_.workspace->Floats(grad_branch_) : nullptr,
      grad.rows, hidden_);
  RETURN_IF_ERROR(plan_.backend->ResidualLayerNormBackward(
      dropout, grad, Normalised(grad.rows), Deviation(grad.rows),
      step.Vector(gamma_), branch, grad, step.Gradient(gamma_),
      step.Gradient(beta_)));
  ASSIGN_OR_RETURN(const ConstMatrix rows, RowsOf(x, plan_.backend, scratch));
  return branch_->Backward(step, rows, dropout.rate > 0 ? branch : grad, grad);
}

absl::Status ResidualBlock::BackwardFromRankSpace(const Step& step,
                                                  const StreamInput& x,
                                                  Matrix grad) {
  const int64_t rows = grad.rows;
  const Matrix grad_t(plan_.workspace->Floats(grad_t_), rows, last_->rank());
  RETURN_IF_ERROR(last_->BeginBackward());
  RETURN_IF_ERROR(plan_.backend->ExpandLayerNormBackward(
      Dropout(step), last_->TWithOnes(0, rows), last_->BWithBias(), grad,
      Normalised(rows), Deviation(rows), step.Vector(gamma_), grad, grad_t,
      last_->grad_b(), step.Gradient(gamma_), step.Gradient(beta_),
      plan_.workspace->Floats(tiles_)));
  RETURN_IF_ERROR(last_->BackwardActivate(0, grad_t));
  return rank_space_->BackwardFromRankSpace(step, x, grad_t, grad);
}

}  // namespace comera::trainer
