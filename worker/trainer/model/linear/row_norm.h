#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_ROW_NORM_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_ROW_NORM_H_

#include <string>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// y = normalised(x) * gamma + beta, row by row: LayerNorm with the parameters
// NAME.gamma and NAME.beta, each as wide as the residual stream. Where there is
// no NAME.beta it is RMSNorm.
class RowNorm {
 public:
  RowNorm(const Plan& plan, const std::string& name);

  // Saves normalised (rows, hidden) and deviation (rows), which are all that
  // the other two need. normalised may be x, and y may be x if normalised is
  // not.
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix normalised, kernels::Vector deviation,
                       kernels::Matrix y) const;
  // Computes y again; y may be normalised.
  absl::Status Repeat(const Step& step, kernels::ConstMatrix normalised,
                      kernels::Matrix y) const;
  // Adds the gradients of gamma and beta. grad_x is set to the gradient of x
  // or, if `accumulate`, that is added to it; then grad_y is overwritten.
  absl::Status Backward(const Step& step, kernels::Matrix grad_y,
                        kernels::ConstMatrix normalised,
                        kernels::ConstVector deviation, kernels::Matrix grad_x,
                        bool accumulate) const;

 private:
  const Plan plan_;
  const Parameter& gamma_;
  const Parameter* const beta_;  // null: RMSNorm
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_ROW_NORM_H_
