// A feed-forward branch from rank vectors to rank vectors.
#include "worker/trainer/model/encoder/rank_space_ffn_branch.h"

#include <utility>

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

RankSpaceFfnBranch::RankSpaceFfnBranch(const Plan& plan,
                                       std::unique_ptr<Linear> up,
                                       std::unique_ptr<Linear> down)
    : plan_(plan),
      up_layer_(std::move(up)),
      down_layer_(std::move(down)),
      up_(up_layer_->rank_space()),
      down_(down_layer_->rank_space()) {
  grad_t2_ = plan.workspace->Reserve(
      "ffn.grad_t2", plan.max_rows * down_->rank() * int64_t{sizeof(float)});
  workspace_ = plan.workspace->Reserve(
      "ffn.tiles",
      plan.backend->RankSpaceFfnWorkspaceBytes(
          {plan.max_rows, plan.config->ffn, up_->rank(), down_->rank()}));
  tiles_ = plan.workspace->Reserve(
      "linear.tiles", plan.backend->RankSpaceStreamWorkspaceBytes(
                          plan.max_rows, up_->rank(), plan.config->hidden));
}

absl::Status RankSpaceFfnBranch::Contract(const Step& step) {
  RETURN_IF_ERROR(up_layer_->Contract(step));
  return down_layer_->Contract(step);
}

absl::Status RankSpaceFfnBranch::BeginBackward() {
  RETURN_IF_ERROR(down_->BeginBackward());
  return up_->BeginBackward();
}

absl::Status RankSpaceFfnBranch::FinishBackward(const Step& step) {
  RETURN_IF_ERROR(down_layer_->FinishBackward(step));
  return up_layer_->FinishBackward(step);
}

absl::Status RankSpaceFfnBranch::Forward(const Step& step, ConstMatrix x,
                                         Matrix y) {
  RETURN_IF_ERROR(ForwardToRankSpace(step, x));
  return down_->Expand(0, y);
}

absl::Status RankSpaceFfnBranch::ForwardToRankSpace(const Step& step,
                                                    ConstMatrix x) {
  RETURN_IF_ERROR(up_->Project(0, x));
  RETURN_IF_ERROR(up_->Activate(0, x.rows));
  RETURN_IF_ERROR(plan_.backend->RankSpaceFfn(
      up_->TWithOnes(0, x.rows), up_->BWithBias(), down_->A(),
      down_->T(0, x.rows), plan_.workspace->Floats(workspace_)));
  return down_->Activate(0, x.rows);
}

absl::Status RankSpaceFfnBranch::Backward(const Step& step, ConstMatrix x,
                                          ConstMatrix grad_y, Matrix grad_x) {
  const Matrix grad_t2(plan_.workspace->Floats(grad_t2_), x.rows,
                       down_->rank());
  RETURN_IF_ERROR(down_->BackwardExpand(0, grad_y, grad_t2));
  return BackwardFromRankSpace(step, {x, {}, {}}, grad_t2, grad_x);
}

absl::Status RankSpaceFfnBranch::BackwardFromRankSpace(const Step& step,
                                                       const StreamInput& x,
                                                       ConstMatrix grad_t,
                                                       Matrix grad_x) {
  const int64_t rows = grad_x.rows;
  RETURN_IF_ERROR(BeginBackward());
  const Matrix grad_t1 = up_->U(rows);
  RETURN_IF_ERROR(plan_.backend->RankSpaceFfnBackward(
      up_->TWithOnes(0, rows), up_->BWithBias(), down_->A(), grad_t, grad_t1,
      up_->grad_b(), down_->grad_a(), plan_.workspace->Floats(workspace_)));
  RETURN_IF_ERROR(up_->BackwardActivate(0, grad_t1));
  return up_->BackwardProject(x, grad_t1, grad_x,
                              plan_.workspace->Floats(tiles_));
}

}  // namespace comera::trainer
