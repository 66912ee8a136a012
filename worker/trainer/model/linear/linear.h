#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_LINEAR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/linear/rank_space_linear.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Y = X W + bias, with W in some form; the bias may be missing.
//
// A step: Contract, then any number of row blocks, each Forward and later
// Backward, then FinishBackward. first_row is the block's place among
// the rows of the step (below max_rows): blocks that go backward must not
// overlap. x is (rows, inputs), y (rows, outputs).
class Linear {
 public:
  virtual ~Linear() = default;

  // Whether Repeat costs clearly less than Forward, so that y need not be kept.
  virtual bool repeats_cheaply() const = 0;

  // The layer's two factors, or null where the layer has none to offer.
  virtual RankSpaceLinear* rank_space() { return nullptr; }

  // Copies to the device what no step changes; called before the first step.
  virtual absl::Status SetUp() { return absl::OkStatus(); }
  // Computes from the parameters what no row changes; may come before the
  // phase of the layer's stage. Only operations that may run together
  // (Backend::BeginTogether).
  virtual absl::Status Contract(const Step&) { return absl::OkStatus(); }
  virtual absl::Status Forward(const Step& step, int64_t first_row,
                               kernels::ConstMatrix x, kernels::Matrix y) = 0;
  // Computes the y of the block's Forward again.
  virtual absl::Status Repeat(const Step& step, int64_t first_row,
                              kernels::ConstMatrix x, kernels::Matrix y) = 0;
  // Takes the same x as Forward. grad_x is set to the gradient or, if
  // `accumulate`, the gradient is added to it; a null grad_x is not computed.
  virtual absl::Status Backward(const Step& step, int64_t first_row,
                                kernels::ConstMatrix x,
                                kernels::ConstMatrix grad_y,
                                kernels::Matrix grad_x, bool accumulate) = 0;
  // Completes the gradients once all row blocks went backward; may come after
  // the phase of the layer's stage. Only operations that may run together.
  virtual absl::Status FinishBackward(const Step&) { return absl::OkStatus(); }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_LINEAR_H_
