#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_RANK_SPACE_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_RANK_SPACE_FFN_BRANCH_H_

#include <memory>

#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/transformer/branch.h"
#include "worker/trainer/model/transformer/rank_space_branch.h"

namespace comera::trainer {

// A feed-forward branch from rank vectors to rank vectors (kernels/backend.h,
// RankSpaceFfn): for a token only T of both layers is kept, and the hidden
// layer is never in memory.
class RankSpaceFfnBranch : public Branch, public RankSpaceBranch {
 public:
  // Both layers have factors.
  RankSpaceFfnBranch(const Plan& plan, std::unique_ptr<Linear> up,
                     std::unique_ptr<Linear> down);

  absl::Status Contract(const Step& step) override;
  absl::Status BeginBackward() override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override;
  RankSpaceBranch* rank_space() override { return this; }

  RankSpaceLinear* last() override { return down_; }
  absl::Status ForwardToRankSpace(const Step& step,
                                  kernels::ConstMatrix x) override;
  absl::Status BackwardFromRankSpace(const Step& step, const StreamInput& x,
                                     kernels::ConstMatrix grad_t,
                                     kernels::Matrix grad_x) override;

 private:
  const Plan plan_;
  const std::unique_ptr<Linear> up_layer_, down_layer_;
  RankSpaceLinear* const up_;
  RankSpaceLinear* const down_;
  Workspace::Piece grad_t2_, workspace_, tiles_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_RANK_SPACE_FFN_BRANCH_H_
