#ifndef COMERA_WORKER_TRAINER_OBJECTIVE_REFERENCE_OBJECTIVE_H_
#define COMERA_WORKER_TRAINER_OBJECTIVE_REFERENCE_OBJECTIVE_H_

#include <memory>
#include <utility>

#include "worker/trainer/objective/objective.h"
#include "worker/trainer/objective/size_measure.h"

namespace comera::trainer {

// The objective of the method's published code, for parity (REFERENCE.md, "What
// the published code does"). With R the mean of the alive rank entries over all
// tensorised layers:
//   early  L + 0.01 R
//   late   0.1 L + 0.01 R + lambda R + (1 - lambda) L,
//          lambda = 1 iff (L - L0) / L < (S - S0) / S
// with the loss of the mini-batch, not smoothed. Of the options it uses the
// targets, fixed_size and rank_threshold.
class ReferenceObjective : public Objective {
 public:
  ReferenceObjective(const ObjectiveOptions& options,
                     std::unique_ptr<SizeMeasure> measure,
                     kernels::Backend* backend)
      : Objective(options, std::move(measure), backend) {}

  absl::StatusOr<ObjectiveStep> Apply(const StepLoss& loss, v1::Stage stage,
                                      double gradient_scale,
                                      kernels::ConstVector parameters,
                                      kernels::Vector gradients) override;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OBJECTIVE_REFERENCE_OBJECTIVE_H_
