// What a trainer tells about itself.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "worker/trainer/progress_events.h"
#include "worker/trainer/trainer.h"

namespace comera::trainer {

void Trainer::Emit(v1::TrainerEvent event) {
  if (rank() == 0) options_.events(event);
}

void Trainer::ReportRunInfo() {
  v1::TrainerEvent event;
  v1::RunInfo& info = *event.mutable_run_info();
  info.set_train_samples(options_.data->train_samples());
  info.set_validation_samples(options_.data->validation_samples());
  info.set_vocabulary_size(options_.data->vocabulary_size());
  info.set_baseline_loss(options_.data->baseline_loss());
  info.set_initial_parameters(progress_.initial_size);
  info.set_dense_parameters(DenseParameterCount(initial_config_));
  info.set_total_steps(total_steps());
  info.set_world_size(world_size());
  info.set_resumed_from_step(first_step_);
  Emit(std::move(event));
}

absl::Status Trainer::ReportRanks() {
  if (rank() != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<float> parameters,
                   plan_->Download(plan_->parameters()));
  v1::TrainerEvent event;
  *event.mutable_rank_snapshot() = MakeRankSnapshot(
      progress_.step, initial_config_, plan_->config(), parameters);
  Emit(std::move(event));
  return absl::OkStatus();
}

void Trainer::ReportMetrics(bool validated) {
  if (rank() != 0) return;
  const absl::Time now = options_.clock->Now();
  const int64_t steps = progress_.step - reported_step_;
  const double seconds = absl::ToDoubleSeconds(now - reported_time_);
  if (steps > 0 && seconds > 0) {
    step_seconds_ = seconds / static_cast<double>(steps);
    reported_step_ = progress_.step;
    reported_time_ = now;
  }
  v1::TrainerEvent event;
  v1::StepMetrics& m = *event.mutable_metrics();
  m.set_step(progress_.step);
  m.set_total_steps(total_steps());
  m.set_stage(progress_.stage);
  m.set_loss(last_.loss);
  m.set_smoothed_loss(progress_.loss.value());
  if (validated) {
    m.set_validation_loss(progress_.validation.loss);
    m.set_validation_accuracy(progress_.validation.accuracy);
  }
  const auto size = static_cast<int64_t>(std::llround(last_.objective.size));
  m.set_size_parameters(size);
  m.set_size_bytes(size * kBytesPerParameter);
  if (step_seconds_ > 0) {
    m.set_samples_per_second(options_.spec.training().batch_size() /
                             step_seconds_);
    *m.mutable_eta() = google::protobuf::util::TimeUtil::MillisecondsToDuration(
        std::llround(1000 * step_seconds_ *
                     static_cast<double>(total_steps() - progress_.step)));
  }
  // With one rank: what it would give.
  m.set_synchronized_bytes(plan_->size() * kBytesPerParameter);
  m.set_dense_synchronized_bytes(DenseParameterCount(initial_config_) *
                                 kBytesPerParameter);
  m.set_peak_memory_bytes(PeakMemoryBytes());
  m.set_learning_rate_scale(last_.learning_rate_scale);
  m.set_gradient_norm(last_.gradient_norm);
  if (has_late_stage()) {
    m.set_target_loss(options_.spec.objective().late().target_loss());
    m.set_target_size_parameters(progress_.target_size);
    if (progress_.stage == v1::LATE)
      m.set_stepped_on_size(last_.objective.on_size);
  }
  Emit(std::move(event));
}

v1::TrainingResult Trainer::MakeResult() const {
  v1::TrainingResult result;
  ValidationResult validation = progress_.validation;
  auto size = static_cast<int64_t>(std::llround(last_.objective.size));
  result.set_outcome(v1::COMPLETED);
  if (has_late_stage()) {
    const double target_loss = options_.spec.objective().late().target_loss();
    result.set_outcome(progress_.targets_met ? v1::TARGET_MET
                                             : v1::TARGET_MISSED);
    if (!progress_.targets_met && nearest_.has_value()) {
      validation = nearest_->validation;
      size = nearest_->size;
    }
    result.set_reason(absl::StrFormat(
        "%s: validation loss %.4f (target %.4f), %d parameters (target %d), "
        "at step %d",
        progress_.targets_met ? "both targets met"
                              : "step budget spent, nearest model kept",
        validation.loss, target_loss, size, progress_.target_size,
        validation.step));
  } else {
    result.set_reason(absl::StrCat("all ", progress_.step, " steps done"));
  }
  result.set_step(progress_.step);
  result.set_validation_loss(validation.loss);
  result.set_validation_accuracy(validation.accuracy);
  result.set_size_parameters(size);
  result.set_size_bytes(size * kBytesPerParameter);
  for (const ParetoCandidate& point : progress_.front.points()) {
    *result.add_pareto_front() = ToProto(point);
  }
  return result;
}

}  // namespace comera::trainer
