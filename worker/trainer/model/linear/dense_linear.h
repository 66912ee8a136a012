#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_DENSE_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_DENSE_LINEAR_H_

#include <string>

#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// A W that is stored as it is: parameters NAME.weight (inputs, outputs) and, if
// it has one, NAME.bias.
class DenseLinear : public Linear {
 public:
  DenseLinear(const Plan& plan, const std::string& name);

  bool repeats_cheaply() const override { return false; }
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;

 private:
  kernels::Backend* const backend_;
  const Parameter& weight_;
  const LayerBias bias_;
  const int64_t inputs_;
  const int64_t outputs_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_DENSE_LINEAR_H_
