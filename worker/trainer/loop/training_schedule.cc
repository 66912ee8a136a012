// Computes which steps a job has, and what is due after each.
#include "worker/trainer/loop/training_schedule.h"

#include <algorithm>
#include <cmath>

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

int64_t TrainingSchedule::EarlySteps(const TrainingProgress& progress) const {
  return progress.early_steps >= 0 ? progress.early_steps
                                   : spec_->objective().early().steps();
}

void TrainingSchedule::CountLabels(int64_t step, double labels,
                                   TrainingProgress* progress) const {
  progress->label_tokens += std::llround(labels);
  const int64_t limit = spec_->training().max_tokens();
  if (limit > 0 && progress->label_tokens >= limit &&
      progress->stage == v1::EARLY && progress->early_steps < 0) {
    progress->early_steps = step;
  }
}

bool TrainingSchedule::LabelsMayEndEarlyStage(
    const TrainingProgress& progress) const {
  const int64_t limit = spec_->training().max_tokens();
  if (limit == 0 || progress.stage != v1::EARLY || progress.early_steps >= 0) {
    return false;
  }
  const TrainingPhase& phase = phases_.At(progress.own_step() - 1);
  const int64_t most = phase.batch_size * std::max<int64_t>(1, phase.length);
  return progress.label_tokens + most >= limit;
}

int64_t TrainingSchedule::ApproachSteps(
    const TrainingProgress& progress) const {
  return progress.own_step() - EarlySteps(progress);
}

int64_t TrainingSchedule::LastOwnStep() const {
  const v1::ObjectiveSpec& objective = spec_->objective();
  // Even where the late stage is left to other jobs, the learning rate decays
  // to its end.
  return objective.early().steps() +
         (objective.has_late() ? objective.late().max_steps() : 0);
}

int64_t TrainingSchedule::TotalSteps(const TrainingProgress& progress) const {
  return TotalSteps(progress, EarlySteps(progress));
}

int64_t TrainingSchedule::TotalSteps(const TrainingProgress& progress,
                                     int64_t early_steps) const {
  if (!has_late_stage()) return early_steps;
  const size_t left = targets_.size() - progress.outcomes.size();
  return early_steps + progress.earlier_target_steps() +
         static_cast<int64_t>(left) * spec_->objective().late().max_steps();
}

int64_t TrainingSchedule::ExpectedSteps(const TrainingProgress& progress,
                                        int64_t step) const {
  const int64_t limit = spec_->training().max_tokens();
  const int64_t planned = EarlySteps(progress);
  if (limit == 0 || progress.stage == v1::LATE || progress.early_steps >= 0 ||
      progress.label_tokens == 0) {
    return TotalSteps(progress, planned);
  }
  const double steps = std::ceil(static_cast<double>(step) *
                                 (static_cast<double>(limit) /
                                  static_cast<double>(progress.label_tokens)));
  return TotalSteps(progress, static_cast<int64_t>(std::min(
                                  steps, static_cast<double>(planned))));
}

bool TrainingSchedule::Finished(const TrainingProgress& progress) const {
  return has_late_stage() ? progress.outcomes.size() == targets_.size()
                          : progress.step >= TotalSteps(progress);
}

bool TrainingSchedule::LateStageDue(const TrainingProgress& progress) const {
  return has_late_stage() && progress.stage != v1::LATE &&
         progress.step >= EarlySteps(progress);
}

bool TrainingSchedule::CheckpointDue(const TrainingProgress& progress) const {
  return progress.step % spec_->checkpoint().every_steps() == 0;
}

bool TrainingSchedule::ValidationDue(const TrainingProgress& progress) const {
  // A late stage begins with a validation of its own.
  if (early_only() && Finished(progress)) return false;
  const int64_t own_step = progress.own_step();
  const int64_t left_out =
      spec_->objective().early().steps() - EarlySteps(progress);
  return own_step % spec_->training().validate_every_steps() == 0 ||
         own_step == LastOwnStep() - left_out;
}

}  // namespace comera::trainer
