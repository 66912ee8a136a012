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
//   late   max{ w_loss (L - L0), w_size (s - s0) }, of which on_size tells
//          which is larger; the gradient is that of L + beta |G|^2, or in
//          the achievement mode, as far as on_size, of
//          rho / (w_loss + rho) L + beta |G|^2
// The test uses the counted size and the smoothed loss: one mini-batch says
// little about which target is further away. In the late stage the optimiser
// works on the loss in every step; what the size asks for is a proximal step of
// its own (late/size_controller.h), since Adam would normalise the size's
// gradient to the same step for every entry. |G|^2 is over all cores; without
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
  bool on_device(v1::Stage stage) const override { return stage != v1::LATE; }
  absl::Status Enqueue(const float* labels, kernels::ConstVector parameters,
                       kernels::Vector gradients) override;

 private:
  struct Run {
    int64_t offset;
    int64_t size;
  };

  // gradients += those of gamma s^, from the norms, and of beta |G|^2.
  absl::Status AddRelaxedSize(kernels::ConstVector parameters,
                              kernels::Vector gradients);
  absl::Status AddCoreDecay(kernels::ConstVector parameters,
                            kernels::Vector gradients);

  std::vector<Run> core_runs_;  // neighbouring cores merged
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OBJECTIVE_PARETO_OBJECTIVE_H_
