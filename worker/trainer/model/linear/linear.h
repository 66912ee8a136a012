#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_LINEAR_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_LINEAR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

class TtLinear;

// Y = X W + bias, W in some form.
//
// A step: Prepare, then any number of row blocks, each Forward and later
// Backward, then FinishBackward. first_row is the block's place among the rows
// of the step (below max_rows): blocks that go backward must not overlap. x is
// (rows, inputs), y (rows, outputs).
class Linear {
 public:
  virtual ~Linear() = default;

  // Whether Repeat costs clearly less than Forward, so that y need not be kept.
  virtual bool repeats_cheaply() const = 0;

  // The layer's rank-space face, if it has one: null for dense layers and for
  // layers that are gone.
  virtual TtLinear* rank_space() { return nullptr; }

  // What no step changes, to the device; before the first step.
  virtual absl::Status SetUp() { return absl::OkStatus(); }
  // What does not depend on rows.
  virtual absl::Status Prepare(const Step& step) = 0;
  virtual absl::Status Forward(const Step& step, int64_t first_row,
                               kernels::ConstMatrix x, kernels::Matrix y) = 0;
  // The y of the block's Forward again.
  virtual absl::Status Repeat(const Step& step, int64_t first_row,
                              kernels::ConstMatrix x, kernels::Matrix y) = 0;
  // x as in Forward. grad_x = or, if `accumulate`, += gradient; a null grad_x
  // is not wanted.
  virtual absl::Status Backward(const Step& step, int64_t first_row,
                                kernels::ConstMatrix x,
                                kernels::ConstMatrix grad_y,
                                kernels::Matrix grad_x, bool accumulate) = 0;
  // What is left once all row blocks went backward.
  virtual absl::Status FinishBackward(const Step& step) = 0;
};

// The layer `key` of the configuration, in the form named there. max_rows: of
// one step. What is kept from Backward to FinishBackward lies in workspace
// under the name `scratch`, which layers share that do not run in between.
std::unique_ptr<Linear> MakeLinear(const Plan& plan, const std::string& key,
                                   int64_t max_rows,
                                   const std::string& scratch);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_LINEAR_H_
