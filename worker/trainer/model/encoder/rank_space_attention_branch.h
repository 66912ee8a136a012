#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_RANK_SPACE_ATTENTION_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_RANK_SPACE_ATTENTION_BRANCH_H_

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/transformer/attention_projections.h"
#include "worker/trainer/model/transformer/branch.h"
#include "worker/trainer/model/transformer/rank_space_branch.h"

namespace comera::trainer {

// Attention in rank space, where all four projections have factors: neither
// queries, keys, values nor heads are formed. For a token only its four rank
// vectors (by the projections) and a float per head are kept.
//
// With T~ and B~ of each projection (RankSpaceLinear) and the columns h of a
// head,
//   C_h = B~q_h B~k_h^T, E_h = B~v_h A_h (rows h of the output's A),
// attention goes from T~q, T~k, T~v straight to the output's T
// (Backend::RankSpaceAttention), and back; the gradients of B~ and A follow
// from those of C and E without reading tokens again.
class RankSpaceAttentionBranch : public Branch, public RankSpaceBranch {
 public:
  // All four projections have factors.
  RankSpaceAttentionBranch(const Plan& plan, int64_t layer,
                           AttentionProjections projections);

  absl::Status Contract(const Step& step) override;
  absl::Status BeginBackward() override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override;
  RankSpaceBranch* rank_space() override { return this; }

  RankSpaceLinear* last() override { return &output_; }
  absl::Status ForwardToRankSpace(const Step& step,
                                  kernels::ConstMatrix x) override;
  absl::Status BackwardFromRankSpace(const Step& step, const StreamInput& x,
                                     kernels::ConstMatrix grad_t,
                                     kernels::Matrix grad_x) override;

 private:
  kernels::RankSpaceAttentionShape Shape(int64_t sequences, int64_t tokens,
                                         int64_t max_length) const;
  kernels::RankSpaceAttentionShape Shape(const Step& step) const {
    return Shape(step.sequences, step.tokens, step.max_length);
  }
  kernels::DropoutKey Dropout(const Step& step) const;
  // C and E, all heads; at `data` or from Forward.
  kernels::Matrix C(float* data) const;
  kernels::Matrix E(float* data) const;
  absl::Status FormFactors();
  // The factors A of queries, keys and values side by side.
  kernels::Matrix AllA() const;
  absl::Status GatherA();
  kernels::Matrix AllGradA() const;
  // Gradients of B~ and A from those of C and E.
  absl::Status OutputGradients(kernels::ConstMatrix grad_e);
  absl::Status ValueGradients(kernels::ConstMatrix grad_e);
  absl::Status QueryGradients(kernels::ConstMatrix grad_c);
  absl::Status KeyGradients(kernels::ConstMatrix grad_c);
  // BackwardProject of queries, keys and values with one reading of x: their
  // ranks side by side, grad_t likewise.
  absl::Status ProjectTogether(const StreamInput& x,
                               kernels::ConstMatrix grad_t,
                               kernels::Matrix grad_x);
  // Deals out what ProjectTogether summed up.
  absl::Status SpreadGradA();

  const Plan plan_;
  const int64_t layer_;
  const int64_t heads_, head_width_;
  const AttentionProjections projections_;
  // The projections' factors.
  RankSpaceLinear &query_, &key_, &value_, &output_;
  const int64_t ranks_;  // sum over queries, keys and values
  // A device waits for memory and for launches, not for products.
  const bool together_;
  bool has_grad_a_ = false;  // whether AllGradA holds sums, or zeros
  SavedMemory::Piece log_sum_, c_, e_, all_a_ = 0;
  Workspace::Piece grad_c_, grad_e_, grad_t_, attention_;
  Workspace::Piece all_grad_a_ = 0, tiles_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_RANK_SPACE_ATTENTION_BRANCH_H_
