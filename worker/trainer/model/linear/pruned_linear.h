#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_PRUNED_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_PRUNED_LINEAR_H_

#include <string>

#include "worker/trainer/model/linear/layer_bias.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// A factorised layer whose ranks were all pruned to 0: Y = bias, or 0 where it
// has none, gX = 0. It has no memory.
class PrunedLinear : public Linear {
 public:
  PrunedLinear(const Plan& plan, const std::string& name);

  bool repeats_cheaply() const override { return true; }
  absl::Status Forward(const Step& step, int64_t first_row,
                       kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Repeat(const Step& step, int64_t first_row,
                      kernels::ConstMatrix x, kernels::Matrix y) override;
  absl::Status Backward(const Step& step, int64_t first_row,
                        kernels::ConstMatrix x, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x, bool accumulate) override;

 private:
  kernels::Backend* const backend_;
  const LayerBias bias_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_PRUNED_LINEAR_H_
