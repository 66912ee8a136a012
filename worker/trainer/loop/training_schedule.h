#ifndef COMERA_WORKER_TRAINER_LOOP_TRAINING_SCHEDULE_H_
#define COMERA_WORKER_TRAINER_LOOP_TRAINING_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comera/v1/job.pb.h"
#include "worker/trainer/loop/quality_target.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The course of a job: its phases, stages and targets, how many steps they
// have, and what is due after a step.
//
// An own step counts as if the target that is being approached were the only
// one: the early stage's steps, then those of this approach.
//
// The early stage ends after objective.early.steps, or after the first step at
// which training.max_tokens labels were trained on. The learning rate follows
// the planned steps either way.
//
// Guarantees: every answer is a function of the specification and the progress,
// which is equal on all members, so that all take the same decisions.
class TrainingSchedule {
 public:
  // `spec` is valid, has its defaults filled in, and must outlive this.
  explicit TrainingSchedule(const v1::JobSpec* spec);

  const PhaseTable& phases() const { return phases_; }
  const std::vector<v1::Target>& targets() const { return targets_; }

  // Whether the job ends with its early stage, and leaves the late one to other
  // jobs. It is planned like a job with both.
  bool early_only() const { return spec_->objective().early().only(); }
  bool has_late_stage() const {
    return spec_->objective().has_late() && !early_only();
  }
  bool is_pareto() const {
    return spec_->objective().kind() == v1::ObjectiveSpec::PARETO;
  }

  // The target that is being approached, or else the last.
  const v1::Target& target(const TrainingProgress& progress) const;
  // What it asks of the validation set.
  QualityTarget quality(const TrainingProgress& progress) const;
  QualityTarget QualityOfTarget(size_t index) const;
  // Counts the labels of the next step that was read, in order of steps.
  void CountLabels(int64_t step, double labels,
                   TrainingProgress* progress) const;
  // Whether the last step may have ended the early stage by its labels, if
  // these are not counted yet.
  bool LabelsMayEndEarlyStage(const TrainingProgress& progress) const;

  // Steps of the current approach that were done.
  int64_t ApproachSteps(const TrainingProgress& progress) const;
  // The last own step that is planned for an approach, or for the early stage
  // without any.
  int64_t LastOwnStep() const;
  // Done and still planned; falls when a target is met early, or when the
  // labels end the early stage.
  int64_t TotalSteps(const TrainingProgress& progress) const;
  // The same, with the early stage as long as it will be if labels come as fast
  // as they did until `step`, which is the last whose labels are counted.
  int64_t ExpectedSteps(const TrainingProgress& progress, int64_t step) const;
  bool Finished(const TrainingProgress& progress) const;

  bool LateStageDue(const TrainingProgress& progress) const;
  bool CheckpointDue(const TrainingProgress& progress) const;
  // Whether the last step ends a regular interval, or is the last of all.
  bool ValidationDue(const TrainingProgress& progress) const;

 private:
  // The planned number, or the step at which max_tokens was reached.
  int64_t EarlySteps(const TrainingProgress& progress) const;
  // TotalSteps, for an early stage of so many steps.
  int64_t TotalSteps(const TrainingProgress& progress,
                     int64_t early_steps) const;

  const v1::JobSpec* const spec_;
  const PhaseTable phases_;
  const std::vector<v1::Target> targets_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_TRAINING_SCHEDULE_H_
