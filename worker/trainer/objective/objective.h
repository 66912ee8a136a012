// What a training step minimises: the loss, and how large the model is.
#ifndef COMERA_WORKER_TRAINER_OBJECTIVE_OBJECTIVE_H_
#define COMERA_WORKER_TRAINER_OBJECTIVE_OBJECTIVE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/objective/size_measure.h"

namespace comera::trainer {

// Constants of an objective. Sizes are counted in parameters.
struct ObjectiveOptions {
  // Pareto: weights of the two stages (job.proto, EarlyStage and LateStage).
  double gamma = 0.05;
  double beta = 1e-5;
  double w_loss = 1;
  double w_size = 1;
  // Late stage: the loss counts for less in steps on the size, by rho against
  // w_loss + rho.
  bool achievement = false;
  double rho = 0;
  // Late stage: L0, or what stands for it where the target is no loss
  // (loop/quality_target.h), and S0 on the same scale as the size: with
  // fixed_size.
  double target_loss = 0;
  double target_size = 0;
  // Parameters that no rank changes; added to the size of the tensorised
  // layers. 0: sizes are those of the tensorised layers alone.
  double fixed_size = 0;
  // Pareto: the size at step 0, which sizes are divided by.
  double initial_size = 1;
  // Rank entries at or below this act as 0.
  float rank_threshold = 1e-2f;
};

// The loss of one step: the mean over the labels of the global batch, and what
// is compared with the target, smoothed over steps.
struct StepLoss {
  double mean = 0;
  double smoothed = 0;
};

// What an objective saw and did in one step.
struct ObjectiveStep {
  // S: parameters at the alive ranks. S^: its relaxation. Both with fixed_size.
  double size = 0;
  double relaxed_size = 0;
  // Alive rank entries of all tensorised layers, and the mean of their values;
  // 0 without any.
  double alive_entries = 0;
  double mean_alive_entry = 0;
  // What the loss gradient was multiplied by, gradient_scale apart.
  double loss_factor = 1;
  // Late stage: the size is further from its target than the loss.
  bool on_size = false;
};

// Turns the gradient of the loss into the gradient of the objective.
//
// Life cycle: CreateObjective (create_objective.h) binds it to one layout;
// after a change of ranks, create a new one. Holds no state between steps. Not
// thread-safe.
//
// Guarantees: the result depends on the arguments only, so that members
// with equal parameters and equal losses take the same decisions.
class Objective {
 public:
  virtual ~Objective() = default;

  // gradients holds the gradient of the sum of the losses; gradient_scale
  // (1 / labels) makes it the mean's. It becomes the objective's gradient.
  virtual absl::StatusOr<ObjectiveStep> Apply(const StepLoss& loss,
                                              v1::Stage stage,
                                              double gradient_scale,
                                              kernels::ConstVector parameters,
                                              kernels::Vector gradients) = 0;

  // Whether Enqueue can take Apply's place: the host decides nothing.
  virtual bool on_device(v1::Stage) const { return false; }
  // Apply in two halves, so that the host does not wait: enqueues, with the
  // number of labels in memory of the backend; StepOf makes what Apply returns
  // of what norms(), memory of the backend that stays the same, then holds.
  // FailedPrecondition: not on_device.
  virtual absl::Status Enqueue(const float* labels,
                               kernels::ConstVector parameters,
                               kernels::Vector gradients);
  kernels::ConstVector norms() const { return measure_->norms(); }
  ObjectiveStep StepOf(const float* norms) const;

  // The sizes alone, for reports and targets.
  absl::StatusOr<ObjectiveStep> Measure(kernels::ConstVector parameters);

 protected:
  Objective(const ObjectiveOptions& options,
            std::unique_ptr<SizeMeasure> measure, kernels::Backend* backend)
      : options_(options), measure_(std::move(measure)), backend_(backend) {}

  ObjectiveStep StepOf(const SizeMeasure::Sizes& sizes) const;

  const ObjectiveOptions options_;
  const std::unique_ptr<SizeMeasure> measure_;
  kernels::Backend* const backend_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OBJECTIVE_OBJECTIVE_H_
