#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_PRUNED_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_PRUNED_BRANCH_H_

#include <memory>
#include <utility>

#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// A branch whose last linear layer was pruned: what is before that layer
// reaches nothing, so it is neither computed nor planned. The branch is the
// layer's bias.
class PrunedBranch : public Branch {
 public:
  explicit PrunedBranch(std::unique_ptr<Linear> last)
      : last_(std::move(last)) {}

  bool reads_input() const override { return false; }
  absl::Status Contract(const Step& step) override {
    return last_->Contract(step);
  }
  absl::Status FinishBackward(const Step& step) override {
    return last_->FinishBackward(step);
  }
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override {
    return last_->Forward(step, 0, x, y);
  }
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override {
    return last_->Backward(step, 0, x, grad_y,
                           kernels::Matrix(nullptr, grad_x.rows, grad_x.cols),
                           false);
  }

 private:
  const std::unique_ptr<Linear> last_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_PRUNED_BRANCH_H_
