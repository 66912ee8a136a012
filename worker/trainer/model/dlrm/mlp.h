#ifndef COMERA_WORKER_TRAINER_MODEL_DLRM_MLP_H_
#define COMERA_WORKER_TRAINER_MODEL_DLRM_MLP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Linear layers KEY.0, KEY.1, .. with a ReLU behind each; without one behind
// the last unless `relu_last`. A sample is a row.
class Mlp {
 public:
  Mlp(const Plan& plan, const std::string& key,
      const std::vector<int64_t>& widths, bool relu_last);

  // x (batch, inputs) and y (batch, widths.back()) must stay until Backward.
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y);
  // x and y as in Forward. grad_y is overwritten; a null grad_x is not wanted.
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix y, kernels::Matrix grad_y,
                        kernels::Matrix grad_x);

 private:
  // Output of layer i, which is not the last.
  kernels::Matrix Hidden(const Step& step, size_t i) const;
  bool relu(size_t i) const { return relu_last_ || i + 1 < layers_.size(); }

  const Plan plan_;
  const std::vector<int64_t> widths_;
  const bool relu_last_;
  std::vector<std::unique_ptr<Linear>> layers_;
  std::vector<SavedMemory::Piece> hidden_;
  // Gradients of hidden outputs, in turn.
  Workspace::Piece grad_[2] = {};
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DLRM_MLP_H_
