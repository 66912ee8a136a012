// Turns what happens in a training run into events.
#include "worker/trainer/loop/step_reporter.h"

#include <cmath>
#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

StepReporter::StepReporter(const TrainerOptions* options,
                           const TrainingSchedule* schedule,
                           const TrainingProgress* progress,
                           TrainedModel* model)
    : options_(*options),
      schedule_(*schedule),
      progress_(*progress),
      model_(*model) {}

absl::Status StepReporter::MeasureFreeMemory() {
  if (!options_.report_device_memory) return absl::OkStatus();
  ASSIGN_OR_RETURN(free_bytes_at_start_, options_.backend->FreeBytes());
  return absl::OkStatus();
}

void StepReporter::Begin(int64_t first_step) {
  first_step_ = measured_step_ = first_step;
}

void StepReporter::StartClock() { measured_time_ = options_.clock->Now(); }

void StepReporter::Emit(const v1::TrainerEvent& event) {
  if (options_.member() == 0) options_.events(event);
}

void StepReporter::ReportRunInfo() {
  v1::TrainerEvent event;
  v1::RunInfo& info = *event.mutable_run_info();
  info.set_train_samples(options_.data->train_samples());
  info.set_validation_samples(options_.data->validation_samples());
  info.set_test_samples(options_.data->test_samples());
  info.set_vocabulary_size(options_.data->vocabulary_size());
  info.set_baseline_loss(options_.data->baseline_loss());
  info.set_initial_parameters(progress_.initial_size);
  info.set_dense_parameters(DenseParameterCount(model_.initial_config()));
  info.set_total_steps(schedule_.TotalSteps(progress_));
  info.set_world_size(options_.world_size());
  info.set_resumed_from_step(first_step_);
  info.set_device(options_.device);
  for (const auto& [layer, relative_error] : initial_errors_) {
    v1::LayerError* error = info.add_initial_errors();
    error->set_layer(layer);
    error->set_relative_error(relative_error);
  }
  if (options_.member() == 0) {
    const std::optional<double> ideal =
        options_.data->ideal_auc(options_.ValidationSamples());
    if (ideal.has_value()) info.set_ideal_auc(*ideal);
  }
  Emit(event);
}

absl::Status StepReporter::ReportRanks() {
  if (options_.member() != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<float> parameters, model_.Parameters());
  ReportRanks(model_.plan()->config(), parameters);
  return absl::OkStatus();
}

void StepReporter::ReportRanks(const ModelConfig& config,
                               const std::vector<float>& parameters) {
  v1::TrainerEvent event;
  *event.mutable_rank_snapshot() = MakeRankSnapshot(
      progress_.step, model_.initial_config(), config, parameters);
  Emit(event);
}

bool StepReporter::MetricsDue(const StepFigures& figures) const {
  return figures.step == first_step_ + 1 ||
         figures.step % options_.spec.training().report_every_steps() == 0;
}

void StepReporter::MeasureThroughput(const StepFigures& figures) {
  const absl::Time now = options_.clock->Now();
  const int64_t steps = figures.step - measured_step_;
  const double seconds = absl::ToDoubleSeconds(now - measured_time_);
  if (steps <= 0 || !(seconds > 0)) return;
  step_seconds_ = seconds / static_cast<double>(steps);
  step_tokens_ =
      (figures.tokens - measured_tokens_) / static_cast<double>(steps);
  measured_step_ = figures.step;
  measured_tokens_ = figures.tokens;
  measured_time_ = now;
}

void StepReporter::FillThroughput(int64_t step, v1::StepMetrics* m) {
  if (step_seconds_ <= 0) return;
  const TrainingPhase& phase =
      schedule_.phases().At(step - progress_.earlier_target_steps() - 1);
  m->set_samples_per_second(static_cast<double>(phase.batch_size) /
                            step_seconds_);
  m->set_tokens_per_second(step_tokens_ / step_seconds_);
  FillUtilisation(phase, m);
  *m->mutable_eta() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(std::llround(
          1000 * step_seconds_ * static_cast<double>(m->total_steps() - step)));
}

void StepReporter::FillUtilisation(const TrainingPhase& phase,
                                   v1::StepMetrics* m) {
  if (!options_.machine_is_measured) return;
  ModelConfig config = model_.plan()->config();
  // The plan may be that of a validation.
  if (schedule_.phases().phases().size() > 1) config.length = phase.length;
  const int64_t parts = PartsOfBatch(options_.spec);
  const int64_t share = phase.batch_size / options_.world_size();
  const std::optional<double> work =
      work_.MultiplyAdds(config, share / parts, parts);
  if (!work.has_value()) return;
  const double full = static_cast<double>(phase.batch_size) *
                      static_cast<double>(config.length);
  const double filled = step_tokens_ > 0 ? step_tokens_ / full : 1;
  m->set_model_flops_utilisation(*work * filled / step_seconds_ /
                                 options_.machine.square_rate);
}

void StepReporter::FillMemory(v1::StepMetrics* m) const {
  // In a gang of one these bytes are what would be synchronised.
  const bool compressed = options_.spec.training().compress_gradients();
  m->set_synchronized_bytes(model_.plan()->trained_size() *
                            (compressed ? kBytesPerParameter / 2
                                        : kBytesPerParameter));
  m->set_dense_synchronized_bytes(DenseParameterCount(model_.initial_config()) *
                                  kBytesPerParameter);
  m->set_peak_memory_bytes(PeakMemoryBytes());
  if (!options_.report_device_memory) return;
  const absl::StatusOr<int64_t> free = options_.backend->FreeBytes();
  if (free.ok()) m->set_device_memory_bytes(free_bytes_at_start_ - *free);
}

void StepReporter::ReportMetrics(const StepFigures& figures, bool validated) {
  if (options_.member() != 0) return;
  MeasureThroughput(figures);
  v1::TrainerEvent event;
  v1::StepMetrics& m = *event.mutable_metrics();
  m.set_step(figures.step);
  m.set_total_steps(schedule_.ExpectedSteps(progress_, figures.step));
  m.set_stage(progress_.stage);
  m.set_loss(figures.loss);
  m.set_smoothed_loss(progress_.loss.value());
  if (validated) {
    m.set_validation_loss(progress_.validation.loss);
    m.set_validation_accuracy(progress_.validation.accuracy);
    SetFigures(progress_.validation, &m);
    SetLanguageFigures(options_.spec.model(), *options_.data, &m);
  }
  const auto size = static_cast<int64_t>(std::llround(figures.objective.size));
  m.set_size_parameters(size);
  m.set_size_bytes(size * kBytesPerParameter);
  FillThroughput(figures.step, &m);
  FillMemory(&m);
  m.set_learning_rate_scale(figures.learning_rate_scale);
  m.set_gradient_norm(figures.gradient_norm);
  m.set_energy_joules(progress_.energy_joules);
  if (schedule_.has_late_stage()) {
    m.set_target_loss(schedule_.target(progress_).target_loss());
    m.set_target_size_parameters(progress_.target_size);
    m.set_target_index(static_cast<int32_t>(progress_.outcomes.size()));
    if (figures.stage == v1::LATE) {
      m.set_stepped_on_size(figures.objective.on_size);
    }
  }
  Emit(event);
}

void StepReporter::ReportParetoPoint(const ParetoCandidate& candidate) {
  v1::TrainerEvent event;
  *event.mutable_pareto_point() = ToProto(candidate);
  Emit(event);
}

void StepReporter::ReportCheckpoint(int64_t size_bytes, bool snapshot) {
  v1::TrainerEvent event;
  event.mutable_checkpoint()->set_step(progress_.step);
  event.mutable_checkpoint()->set_size_bytes(size_bytes);
  if (snapshot) event.mutable_checkpoint()->set_snapshot(true);
  Emit(event);
}

void StepReporter::ReportIncident(v1::FailureClass failure_class,
                                  const std::string& what) {
  v1::TrainerEvent event;
  *event.mutable_incident() =
      ToFailure(WithFailureClass(absl::InternalError(what), failure_class), 0,
                options_.member());
  Emit(event);
}

void StepReporter::ReportResult(const v1::TrainingResult& result) {
  v1::TrainerEvent event;
  *event.mutable_result() = result;
  Emit(event);
}

}  // namespace comera::trainer
