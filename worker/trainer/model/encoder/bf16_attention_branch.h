#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_ATTENTION_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_ATTENTION_BRANCH_H_

#include <cstdint>

#include "kernels/backend.h"
#include "worker/trainer/model/encoder/bf16_branch.h"
#include "worker/trainer/model/linear/bf16_factors.h"
#include "worker/trainer/model/transformer/attention_projections.h"

namespace comera::trainer {

// Attention by queries, keys and values whose projections have factors. The
// heads' outputs are kept; queries, keys and values, which Backward computes
// again from their rank vectors, are not.
class Bf16AttentionBranch : public Bf16Branch {
 public:
  // The projections of a branch whose AttentionForm is kBf16, made with
  // Plan::rows_elsewhere.
  Bf16AttentionBranch(const Plan& plan, int64_t layer,
                      AttentionProjections projections);

  absl::Status Contract(const Step& step) override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstBf16Matrix x,
                       kernels::Bf16Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstBf16Matrix x,
                        kernels::ConstBf16Matrix grad_y,
                        kernels::Bf16Matrix grad_x) override;

 private:
  // Query, key or value (0, 1, 2) of `rows` tokens in a piece of workspace,
  // one behind the other.
  kernels::Bf16Matrix Part(Workspace::Piece piece, int i, int64_t rows) const;
  kernels::Bf16Matrix Context(int64_t rows) const;
  kernels::AttentionShape Shape(int64_t sequences, int64_t tokens,
                                int64_t max_length) const;
  kernels::DropoutKey Dropout(const Step& step) const;

  const Plan plan_;
  const int64_t layer_, hidden_;
  const AttentionProjections projections_;
  Bf16Factors inputs_, output_;  // query, key and value; output
  SavedMemory::Piece context_, log_sum_;
  Workspace::Piece projected_, grads_, grad_context_, attention_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_ATTENTION_BRANCH_H_
