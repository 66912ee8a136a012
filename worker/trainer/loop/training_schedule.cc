// Computes which steps a job has, and what is due after each.
#include "worker/trainer/loop/training_schedule.h"

#include <algorithm>

#include "proto/job_targets.h"

namespace comera::trainer {

TrainingSchedule::TrainingSchedule(const v1::JobSpec* spec)
    : spec_(spec),
      phases_(*spec),
      targets_(TargetsOf(spec->objective().late())) {}

const v1::Target& TrainingSchedule::target(
    const TrainingProgress& progress) const {
  return targets_[std::min(progress.outcomes.size(), targets_.size() - 1)];
}

QualityTarget TrainingSchedule::quality(
    const TrainingProgress& progress) const {
  return QualityTarget(target(progress),
                       spec_->objective().late().confidence());
}

QualityTarget TrainingSchedule::QualityOfTarget(size_t index) const {
  return QualityTarget(targets_[index], spec_->objective().late().confidence());
}

int64_t TrainingSchedule::ApproachSteps(
    const TrainingProgress& progress) const {
  return progress.own_step() - spec_->objective().early().steps();
}

int64_t TrainingSchedule::LastOwnStep() const {
  const v1::ObjectiveSpec& objective = spec_->objective();
  // Even where the late stage is left to other jobs, the learning rate decays
  // to its end.
  return objective.early().steps() +
         (objective.has_late() ? objective.late().max_steps() : 0);
}

int64_t TrainingSchedule::TotalSteps(const TrainingProgress& progress) const {
  const v1::ObjectiveSpec& objective = spec_->objective();
  if (!has_late_stage()) return objective.early().steps();
  const size_t left = targets_.size() - progress.outcomes.size();
  return objective.early().steps() + progress.earlier_target_steps() +
         static_cast<int64_t>(left) * objective.late().max_steps();
}

bool TrainingSchedule::Finished(const TrainingProgress& progress) const {
  return has_late_stage() ? progress.outcomes.size() == targets_.size()
                          : progress.step >= TotalSteps(progress);
}

bool TrainingSchedule::LateStageDue(const TrainingProgress& progress) const {
  return has_late_stage() && progress.stage != v1::LATE &&
         progress.step >= spec_->objective().early().steps();
}

bool TrainingSchedule::CheckpointDue(const TrainingProgress& progress) const {
  return progress.step % spec_->checkpoint().every_steps() == 0;
}

bool TrainingSchedule::ValidationDue(const TrainingProgress& progress) const {
  // A late stage begins with a validation of its own.
  if (early_only() && Finished(progress)) return false;
  const int64_t own_step = progress.own_step();
  return own_step % spec_->training().validate_every_steps() == 0 ||
         own_step == LastOwnStep();
}

}  // namespace comera::trainer
