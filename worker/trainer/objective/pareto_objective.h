#ifndef COMERA_WORKER_TRAINER_OBJECTIVE_PARETO_OBJECTIVE_H_
#define COMERA_WORKER_TRAINER_OBJECTIVE_PARETO_OBJECTIVE_H_

#include <memory>
#include <vector>

#include "worker/trainer/objective/objective.h"
#include "worker/trainer/objective/size_measure.h"

namespace comera::trainer {

// The paper's two-stage objective (REFERENCE.md, "Two-stage objective"), with
// s = S / S(0) and s^ = S^ / S(0) in place of the sizes:
//   early  L + gamma s^ + beta |G|^2
//   late   if w_loss (L - L0) >= w_size (s - s0)
//          then w_loss L + rho (L + s^) + beta |G|^2
//          else w_size s^ + rho (L + s^) + beta |G|^2
// The test uses the counted size and the smoothed loss: one mini-batch says
// little about which target is further away. |G|^2 is over all cores; without
// it the entries would shrink and the cores grow at constant product.
class ParetoObjective : public Objective {
 public:
  ParetoObjective(const ObjectiveOptions& options,
                  std::unique_ptr<SizeMeasure> measure,
                  const ParameterLayout& layout, kernels::Backend* backend);

  absl::StatusOr<ObjectiveStep> Apply(const StepLoss& loss, v1::Stage stage,
                                      double gradient_scale,
                                      kernels::ConstVector parameters,
                                      kernels::Vector gradients) override;

 private:
  struct Run {
    int64_t offset;
    int64_t size;
  };

  std::vector<Run> core_runs_;  // neighbouring cores merged
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OBJECTIVE_PARETO_OBJECTIVE_H_
