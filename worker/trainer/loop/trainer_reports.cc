// What a trainer tells about itself.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/loop/trainer.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

void Trainer::Emit(v1::TrainerEvent event) {
  if (rank() == 0) options_.events(event);
}

void Trainer::EmitIncident(v1::FailureClass failure_class,
                           const std::string& what) {
  v1::TrainerEvent event;
  *event.mutable_incident() = ToFailure(
      WithFailureClass(absl::InternalError(what), failure_class), 0, rank());
  Emit(std::move(event));
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
  info.set_device(options_.device);
  for (const auto& [layer, relative_error] : initial_errors_) {
    v1::LayerError* error = info.add_initial_errors();
    error->set_layer(layer);
    error->set_relative_error(relative_error);
  }
  if (rank() == 0) {
    const std::optional<double> ideal =
        options_.data->ideal_auc(ValidationSamples());
    if (ideal.has_value()) info.set_ideal_auc(*ideal);
  }
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
  const int64_t steps = last_.step - reported_step_;
  const double seconds = absl::ToDoubleSeconds(now - reported_time_);
  if (steps > 0 && seconds > 0) {
    step_seconds_ = seconds / static_cast<double>(steps);
    reported_step_ = last_.step;
    reported_time_ = now;
  }
  v1::TrainerEvent event;
  v1::StepMetrics& m = *event.mutable_metrics();
  m.set_step(last_.step);
  m.set_total_steps(total_steps());
  m.set_stage(progress_.stage);
  m.set_loss(last_.loss);
  m.set_smoothed_loss(progress_.loss.value());
  if (validated) {
    m.set_validation_loss(progress_.validation.loss);
    m.set_validation_accuracy(progress_.validation.accuracy);
    if (const auto& clicks = progress_.validation.clicks) {
      m.set_validation_auc(clicks->auc);
      m.set_validation_normalized_entropy(clicks->normalized_entropy);
    }
  }
  const auto size = static_cast<int64_t>(std::llround(last_.objective.size));
  m.set_size_parameters(size);
  m.set_size_bytes(size * kBytesPerParameter);
  if (step_seconds_ > 0) {
    const TrainingPhase& phase =
        phases_.At(last_.step - progress_.earlier_target_steps() - 1);
    m.set_samples_per_second(static_cast<double>(phase.batch_size) /
                             step_seconds_);
    *m.mutable_eta() = google::protobuf::util::TimeUtil::MillisecondsToDuration(
        std::llround(1000 * step_seconds_ *
                     static_cast<double>(total_steps() - last_.step)));
  }
  // With one rank: what it would give.
  m.set_synchronized_bytes(plan_->trained_size() * kBytesPerParameter);
  m.set_dense_synchronized_bytes(DenseParameterCount(initial_config_) *
                                 kBytesPerParameter);
  m.set_peak_memory_bytes(PeakMemoryBytes());
  if (options_.report_device_memory) {
    const absl::StatusOr<int64_t> free = options_.backend->FreeBytes();
    if (free.ok()) m.set_device_memory_bytes(free_at_start_ - *free);
  }
  m.set_learning_rate_scale(last_.learning_rate_scale);
  m.set_gradient_norm(last_.gradient_norm);
  if (has_late_stage()) {
    m.set_target_loss(target().target_loss());
    m.set_target_size_parameters(progress_.target_size);
    m.set_target_index(static_cast<int32_t>(progress_.outcomes.size()));
    if (last_.stage == v1::LATE) {
      m.set_stepped_on_size(last_.objective.on_size);
    }
  }
  Emit(std::move(event));
}

void Trainer::FillResult(const TargetOutcome& outcome,
                         v1::TrainingResult* result) {
  result->set_outcome(outcome.met ? v1::TARGET_MET : v1::TARGET_MISSED);
  result->set_step(outcome.validation.step);
  result->set_validation_loss(outcome.validation.loss);
  result->set_validation_accuracy(outcome.validation.accuracy);
  if (const auto& clicks = outcome.validation.clicks) {
    result->set_validation_auc(clicks->auc);
    result->set_validation_normalized_entropy(clicks->normalized_entropy);
  }
  result->set_size_parameters(outcome.size);
  result->set_size_bytes(outcome.size * kBytesPerParameter);
}

v1::TrainingResult Trainer::MakeResult() const {
  v1::TrainingResult result;
  TargetOutcome last;
  if (!progress_.outcomes.empty()) {
    last = progress_.outcomes.back();
  } else {
    last.validation = progress_.validation;
    last.size = std::llround(last_.objective.size);
  }
  FillResult(last, &result);
  result.set_step(progress_.step);
  size_t met = 0;
  for (size_t i = 0; i < progress_.outcomes.size(); ++i) {
    const TargetOutcome& outcome = progress_.outcomes[i];
    met += outcome.met ? 1 : 0;
    v1::TargetResult& target = *result.add_targets();
    target.set_target_loss(targets_[i].target_loss());
    target.set_target_size_parameters(outcome.target_size);
    target.set_outcome(outcome.met ? v1::TARGET_MET : v1::TARGET_MISSED);
    target.set_steps(outcome.steps);
    target.set_validation_loss(outcome.validation.loss);
    target.set_size_parameters(outcome.size);
    target.set_size_bytes(outcome.size * kBytesPerParameter);
  }
  if (!has_late_stage()) {
    result.set_outcome(v1::COMPLETED);
    result.set_reason(absl::StrCat("all ", progress_.step, " steps done"));
  } else if (targets_.size() == 1) {
    result.set_reason(absl::StrFormat(
        "%s: validation loss %.4f (target %.4f), %d parameters (target %d), "
        "at step %d",
        last.met ? "both targets met" : "step budget spent, nearest model kept",
        last.validation.loss, targets_[0].target_loss(), last.size,
        last.target_size, last.validation.step));
  } else {
    result.set_outcome(met == targets_.size() ? v1::TARGET_MET
                                              : v1::TARGET_MISSED);
    result.set_reason(absl::StrFormat(
        "%d of %d targets met after %d steps%s", met, targets_.size(),
        progress_.step, met == targets_.size() ? "" : ", nearest models kept"));
  }
  for (const ParetoCandidate& point : progress_.front.points()) {
    *result.add_pareto_front() = ToProto(point);
  }
  return result;
}

}  // namespace comera::trainer
