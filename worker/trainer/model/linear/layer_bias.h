#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_LAYER_BIAS_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_LAYER_BIAS_H_

#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The bias of a linear layer: the parameter NAME.bias (outputs), or nothing
// where the layer has none.
class LayerBias {
 public:
  LayerBias(const Plan& plan, const std::string& layer_name)
      : backend_(plan.backend), bias_(plan.Find(layer_name + ".bias")) {}

  // Null: the layer has none.
  const Parameter* parameter() const { return bias_; }

  // y[i, :] += bias.
  absl::Status Add(const Step& step, kernels::Matrix y) const;
  // y[i, :] = a op(b) + bias.
  absl::Status Product(const Step& step, bool transpose_b,
                       kernels::ConstMatrix a, kernels::ConstMatrix b,
                       kernels::Matrix y) const;
  // Adds the gradient of the bias.
  absl::Status Backward(const Step& step, kernels::ConstMatrix grad_y) const;

 private:
  kernels::Backend* const backend_;
  const Parameter* const bias_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_LAYER_BIAS_H_
