#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan.h"

namespace comera::trainer {

// Y = X W + bias, W in some form.
//
// A step: Prepare, then any number of row blocks, each Forward and later
// Backward, then FinishBackward. Backward belongs to the last Forward; its x
// must still be there and unchanged.
class Linear {
 public:
  virtual ~Linear() = default;

  // What does not depend on rows.
  virtual absl::Status Prepare(const Step& step) = 0;
  // x (rows, inputs), y (rows, outputs).
  virtual absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                               kernels::Matrix y) = 0;
  // grad_x = or, if `accumulate`, += gradient; a null grad_x is not wanted.
  virtual absl::Status Backward(const Step& step, kernels::ConstMatrix grad_y,
                                kernels::Matrix grad_x, bool accumulate) = 0;
  // What is left once all row blocks went backward.
  virtual absl::Status FinishBackward(const Step& step) = 0;
};

// The layer `key` of the configuration, in the form named there. max_rows: of
// one Forward. own_scratch: other layers run between Backward and
// FinishBackward, so what is kept in between may not lie in shared memory.
std::unique_ptr<Linear> MakeLinear(const Plan& plan, const std::string& key,
                                   int64_t max_rows, bool own_scratch);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_H_
