#ifndef COMERA_WORKER_TRAINER_LOOP_TRAINED_MODEL_H_
#define COMERA_WORKER_TRAINER_LOOP_TRAINED_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/machine_speed.h"
#include "worker/trainer/late/size_controller.h"
#include "worker/trainer/loop/rank_controller.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/objective/objective.h"
#include "worker/trainer/optimizer/optimizer.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The model in training: its plan, and the objective, the optimiser and the
// size controller that are bound to the layout of that plan.
//
// Life cycle: a plan is made by Plan, Load or Restore, and Bind completes it.
// Whatever replaces or reshapes the plan (Load, Restore, Reshape, Compact) asks
// for another Bind before the next step, as does a change of the stage or the
// target. Not thread-safe.
class TrainedModel {
 public:
  // The factorisation that the job begins with. InvalidArgument: the
  // specification does not fit the data.
  static absl::StatusOr<ModelConfig> InitialConfig(
      const TrainerOptions& options, const TrainingSchedule& schedule);

  // The objects behind the pointers must outlive this.
  TrainedModel(const TrainerOptions* options, const TrainingSchedule* schedule,
               const ModelConfig& initial_config);

  // The configuration at step 0, from which ranks are only removed.
  const ModelConfig& initial_config() const { return initial_config_; }
  // Contractions are planned for this machine from now on.
  void set_machine(const kernels::MachineSpeed& machine) {
    initial_config_.machine = machine;
  }

  // Makes the first plan. ResourceExhausted: training does not fit.
  absl::Status Plan(const ModelConfig& config, const TrainingPhase& phase);
  // Loads a training state, with a plan for the phase if there is none yet.
  // DataLoss: its ranks are not those of this model.
  absl::Status Load(const TrainingState& state, const TrainingPhase& phase);
  // Replaces the plan by one that holds `state`.
  absl::Status Restore(const ModelState& state, const TrainingPhase& phase);
  // Makes the objective, the optimiser and, in the late stage of the pareto
  // objective, the size controller for the plan as it is.
  absl::Status Bind(const TrainingProgress& progress);

  // Whether steps of this phase fit the plan as it is.
  bool PlannedFor(const TrainingPhase& phase) const;
  absl::Status Reshape(const TrainingPhase& phase);

  // Whether pruned rank entries are to be removed after this own step.
  bool CompactionDue(int64_t own_step) const {
    return rank_controller_.Due(own_step);
  }
  // Removes them. False: nothing had died, and the plan is the same.
  absl::StatusOr<bool> Compact();
  // Rewrites the cores so that the entries of a bond differ as much in
  // importance as they can (canonical_form.h). All entries must be alive.
  absl::Status Canonicalise();

  // Begins size control from a model of this size, for the next Bind. Only the
  // pareto objective has any.
  void BeginSizeControl(double start_size);
  // The state of the size controller, if there is one.
  std::optional<SizeControl> size_control() const;
  // Goes on from this state, for the next Bind.
  void set_size_control(std::optional<SizeControl> control) {
    control_ = std::move(control);
  }

  // DataLoss: the state, which the message calls `what`, has not as many
  // numbers as its ranks say.
  absl::Status CheckFits(const std::string& what,
                         const ModelState& state) const;
  absl::Status Download(ModelState* state);
  absl::StatusOr<std::vector<float>> Parameters();

  // The plan; null before there is one.
  ModelPlan* plan() { return plan_.get(); }
  // Null before Bind.
  Objective* objective() { return objective_.get(); }
  Optimizer* optimizer() { return optimizer_.get(); }
  // Null without size control.
  SizeController* size_controller() { return size_controller_.get(); }

 private:
  absl::StatusOr<std::unique_ptr<ModelPlan>> MakePlan(
      ModelConfig config, const TrainingPhase& phase) const;
  // The samples that are in the model at a time.
  int64_t PartSize(const TrainingPhase& phase) const {
    return phase.batch_size / options_.world_size() /
           PartsOfBatch(options_.spec);
  }
  absl::Status Upload(const ModelState& state);

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  ModelConfig initial_config_;
  RankController rank_controller_;
  // The state that the next size controller starts from.
  std::optional<SizeControl> control_;
  std::unique_ptr<ModelPlan> plan_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<SizeController> size_controller_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_TRAINED_MODEL_H_
