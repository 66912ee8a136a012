// Runs the steps of a training job, and what follows each of them.
#include "worker/trainer/loop/trainer.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/trainer/loop/compacted_model.h"
#include "worker/trainer/loop/data_agreement.h"
#include "worker/trainer/loop/initial_state.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/loop/quality_target.h"
#include "worker/trainer/loop/state_sharing.h"
#include "worker/trainer/loop/training_result.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

// The least number of steps between two validations that are run in the mere
// hope that the target is met.
constexpr int64_t kHopefulValidationSteps = 20;
// How often the run looks whether it is to end.
constexpr absl::Duration kFinishCheckInterval = absl::Milliseconds(200);

absl::Status CheckOptions(const TrainerOptions& options,
                          const TrainingSchedule& schedule) {
  const int members = options.world_size();
  const int64_t parts = PartsOfBatch(options.spec);
  for (const TrainingPhase& phase : schedule.phases().phases()) {
    if (phase.batch_size < 1 || phase.batch_size % members != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("training.batch_size: ", phase.batch_size,
                       " is not a multiple of ", members, " processes"));
    }
    if (phase.batch_size / members % parts != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("training.accumulate: ", parts, " does not divide the ",
                       phase.batch_size / members, " samples of each process"));
    }
  }
  if (options.data->validation_samples() == 0) {
    return absl::DataLossError("there are no validation samples");
  }
  for (const v1::Target& target : schedule.targets()) {
    if (!target.has_target_auc() || options.data->classes() <= 2) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("target_auc: is for two classes, the data have ",
                     options.data->classes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    TrainerOptions options) {
  const TrainingSchedule schedule(&options.spec);
  RETURN_IF_ERROR(CheckOptions(options, schedule));
  ASSIGN_OR_RETURN(const ModelConfig initial_config,
                   TrainedModel::InitialConfig(options, schedule));
  std::unique_ptr<Trainer> trainer(
      new Trainer(std::move(options), initial_config));
  RETURN_IF_ERROR(trainer->Start());
  return trainer;
}

Trainer::Trainer(TrainerOptions options, const ModelConfig& initial_config)
    : options_(std::move(options)),
      schedule_(&options_.spec),
      model_(&options_, &schedule_, initial_config),
      reporter_(&options_, &schedule_, &progress_, &model_),
      engine_(&options_, &schedule_, &model_, &progress_, &reporter_,
              [this](const StepFigures& figures) {
                if (!reporter_.MetricsDue(figures)) return;
                ReportMetrics(figures, /*validated=*/false);
              }),
      late_stage_(&options_, &schedule_, &progress_, &model_, &engine_,
                  &reporter_),
      guard_(&options_, &schedule_, &progress_, &model_, &engine_, &reporter_),
      energy_(options_.energy, options_.communicator),
      validation_(&options_, &schedule_, &model_, &engine_),
      keeper_(&options_, &schedule_, &progress_, &model_, &late_stage_, &guard_,
              &reporter_, std::move(options_.checkpoint_files)) {}

absl::Status Trainer::Start() {
  RETURN_IF_ERROR(reporter_.MeasureFreeMemory());
  RETURN_IF_ERROR(engine_.Allocate());
  RETURN_IF_ERROR(keeper_.DigestData());
  RETURN_IF_ERROR(CheckSameData(options_.communicator, keeper_.data_digest()));
  TrainingState state;
  if (options_.member() == 0) {
    ASSIGN_OR_RETURN(state, LoadOrInitialise());
  }
  RETURN_IF_ERROR(
      ShareState(options_.communicator, keeper_.fingerprint(), &state));
  return Load(std::move(state));
}

absl::StatusOr<TrainingState> Trainer::LoadOrInitialise() {
  ASSIGN_OR_RETURN(std::optional<TrainingState> state, keeper_.Load());
  if (state.has_value()) return *std::move(state);
  std::vector<InitialWeightsReport::LayerError> errors;
  absl::StatusOr<TrainingState> initial =
      MakeInitialState(options_, schedule_, &model_, &errors);
  reporter_.set_initial_errors(std::move(errors));
  return initial;
}

absl::Status Trainer::Load(TrainingState state) {
  model_.set_machine(state.machine);
  RETURN_IF_ERROR(late_stage_.Check(state));
  RETURN_IF_ERROR(guard_.Check(state));
  RETURN_IF_ERROR(
      model_.Load(state, schedule_.phases().At(state.progress.own_step())));
  progress_ = std::move(state.progress);
  late_stage_.Load(std::move(state.nearest), std::move(state.branch));
  guard_.Load(std::move(state.good));
  energy_.Begin(progress_.energy_joules);
  reporter_.Begin(progress_.step);
  keeper_.Begin(progress_.step);
  return engine_.Rebind();
}

absl::StatusOr<RunEnd> Trainer::Run(const std::atomic<bool>& stop) {
  absl::StatusOr<RunEnd> end = Train(stop);
  LogGraphs();
  // The others would wait for this member until their time-out.
  if (!end.ok() && options_.communicator != nullptr) {
    options_.communicator->Abort();
  }
  return end;
}

absl::StatusOr<RunEnd> Trainer::Train(const std::atomic<bool>& stop) {
  reporter_.ReportRunInfo();
  RETURN_IF_ERROR(reporter_.ReportRanks());
  reporter_.StartClock();
  RETURN_IF_ERROR(EnterLateStageIfDue().status());
  RETURN_IF_ERROR(late_stage_.EndTargetsIfDue().status());
  RETURN_IF_ERROR(guard_.Begin());
  while (!schedule_.Finished(progress_)) {
    if (options_.activity != nullptr) {
      options_.activity->Set(progress_.stage, progress_.step);
    }
    absl::Status done = engine_.Step(stop.load() || FinishAsked());
    if (done.ok()) done = FollowStep();
    if (!done.ok()) RETURN_IF_ERROR(Recover(done));
    if (StopDue()) {
      RETURN_IF_ERROR(engine_.CatchUp());
      return EndStopped();
    }
  }
  if (schedule_.early_only()) RETURN_IF_ERROR(EndEarlyStage());
  return Finish();
}

bool Trainer::FinishAsked() {
  if (!options_.finish_asked || finish_asked_) return finish_asked_;
  const absl::Time now = SteadyNow();
  if (now < next_finish_check_) return false;
  next_finish_check_ = now + kFinishCheckInterval;
  return finish_asked_ = options_.finish_asked();
}

absl::StatusOr<RunEnd> Trainer::EndStopped() {
  keeper_.SaveCheckpoint();
  RunEnd end;
  end.stopped = true;
  // Whatever stopped it, the question may have come meanwhile.
  next_finish_check_ = absl::InfinitePast();
  if (options_.member() != 0 || !FinishAsked() || !options_.export_best) {
    return end;
  }
  // A validation is a matter of all members, and only this one was asked.
  if (!late_stage_.nearest() && progress_.validation.step < 0) {
    options_.log(absl::StrCat("stopped at step ", progress_.step,
                              " before the first validation: no model is "
                              "left, because none is known to be any good"));
    return end;
  }
  options_.Describe("exporting");
  ASSIGN_OR_RETURN(const Exported best, ModelToExport());
  const CompactedModel model = CompactModel(best.config, best.parameters);
  progress_.energy_joules = energy_.Joules();
  end.result = MakeStoppedResult(progress_, late_stage_.nearest(),
                                 std::llround(engine_.last().objective.size));
  SetFileSize(model.config, &end.result);
  SetLanguageFigures(options_.spec.model(), *options_.data, &end.result);
  RETURN_IF_ERROR(
      options_.export_best(model.config, model.parameters, end.result));
  end.left_model = true;
  reporter_.ReportResult(end.result);
  return end;
}

absl::Status Trainer::FollowStep() {
  figures_known_ = FiguresNeeded();
  if (!figures_known_) return SaveSnapshotIfDue();
  // Only the figures of this step are left to read.
  RETURN_IF_ERROR(engine_.ReadAll());
  if (model_.CompactionDue(progress_.own_step())) RETURN_IF_ERROR(Compact());
  ASSIGN_OR_RETURN(bool validated, EnterLateStageIfDue());
  if (!validated && ValidationDue()) {
    RETURN_IF_ERROR(RunValidation());
    validated = true;
  }
  // EndEarlyStage reports the last step of an early stage with its validation.
  const bool ends_early =
      schedule_.early_only() && schedule_.Finished(progress_);
  if (validated || (!ends_early && reporter_.MetricsDue(engine_.last()))) {
    ReportMetrics(engine_.last(), validated);
  }
  if (validated) RETURN_IF_ERROR(guard_.Judge());
  ASSIGN_OR_RETURN(const bool target_ended, late_stage_.EndTargetsIfDue());
  if (target_ended && !schedule_.Finished(progress_)) {
    RETURN_IF_ERROR(guard_.KeepIfBest());
  }
  // A target's outcome is kept at once.
  if (!schedule_.Finished(progress_) &&
      (target_ended || schedule_.CheckpointDue(progress_))) {
    keeper_.SaveCheckpoint();
    return absl::OkStatus();
  }
  return SaveSnapshotIfDue();
}

absl::Status Trainer::Recover(const absl::Status& failure) {
  RETURN_IF_ERROR(guard_.GoBack(failure));
  figures_known_ = true;
  // It may have gone back from the beginning of the late stage, or at its end.
  RETURN_IF_ERROR(EnterLateStageIfDue().status());
  RETURN_IF_ERROR(late_stage_.EndTargetsIfDue().status());
  if (schedule_.Finished(progress_)) return absl::OkStatus();
  RETURN_IF_ERROR(guard_.KeepIfBest());
  // Otherwise a resumed run would diverge once more before it got here.
  keeper_.SaveCheckpoint();
  return absl::OkStatus();
}

bool Trainer::FiguresNeeded() const {
  // The late stage decides in every step; its figures are never deferred.
  if (!engine_.figures_are_deferred()) return true;
  return model_.CompactionDue(progress_.own_step()) ||
         schedule_.LabelsMayEndEarlyStage(progress_) ||
         schedule_.LateStageDue(progress_) || ValidationDue() ||
         schedule_.CheckpointDue(progress_) || schedule_.Finished(progress_);
}

bool Trainer::StopDue() const {
  // One member may know more, where it caught up for a snapshot.
  const int64_t known = progress_.step - (figures_known_ ? 0 : 1);
  return engine_.stop_step() >= 0 && engine_.stop_step() <= known &&
         !schedule_.Finished(progress_);
}

absl::Status Trainer::SaveSnapshotIfDue() {
  const absl::Time begin = SteadyNow();
  if (schedule_.Finished(progress_) || !keeper_.SnapshotDue(begin)) {
    return absl::OkStatus();
  }
  if (!engine_.CatchUpAlone()) return absl::OkStatus();
  keeper_.SaveSnapshot(begin);
  return absl::OkStatus();
}

absl::Status Trainer::Compact() {
  ASSIGN_OR_RETURN(const bool changed, model_.Compact());
  if (!changed) return absl::OkStatus();
  RETURN_IF_ERROR(engine_.Rebind());
  return reporter_.ReportRanks();
}

bool Trainer::ValidationDue() const {
  if (schedule_.ValidationDue(progress_)) return true;
  const QualityTarget quality = schedule_.quality(progress_);
  return progress_.stage == v1::LATE && !progress_.targets_met &&
         progress_.step - progress_.validation.step >=
             kHopefulValidationSteps &&
         engine_.last().objective.size <=
             static_cast<double>(progress_.target_size) &&
         !progress_.validation.refuted &&
         quality.EstimatedLevel(progress_) <= quality.goal();
}

absl::Status Trainer::RunValidation() {
  ASSIGN_OR_RETURN(progress_.validation, validation_.OnSample(progress_.step));
  RETURN_IF_ERROR(energy_.Share());
  const double loss = progress_.validation.loss;
  progress_.validation_gap = loss - progress_.loss.value();
  ASSIGN_OR_RETURN(const ObjectiveStep now,
                   model_.objective()->Measure(model_.plan()->parameters()));
  engine_.set_last_size(now.size);
  const auto size = static_cast<int64_t>(std::llround(now.size));
  const ParetoCandidate candidate{progress_.step, loss, size};
  if (progress_.front.Add(candidate)) reporter_.ReportParetoPoint(candidate);
  return progress_.stage == v1::LATE ? late_stage_.Judge(size)
                                     : absl::OkStatus();
}

absl::StatusOr<bool> Trainer::EnterLateStageIfDue() {
  if (!schedule_.LateStageDue(progress_)) return false;
  // Only living entries can be rewritten.
  if (schedule_.is_pareto()) RETURN_IF_ERROR(Compact());
  RETURN_IF_ERROR(late_stage_.Enter());
  // Every approach starts from known figures.
  RETURN_IF_ERROR(RunValidation());
  RETURN_IF_ERROR(late_stage_.KeepBranchPoint());
  return true;
}

absl::Status Trainer::EndEarlyStage() {
  RETURN_IF_ERROR(engine_.CatchUp());
  RETURN_IF_ERROR(keeper_.ExportEarlyStage());
  RETURN_IF_ERROR(RunValidation());
  ReportMetrics(engine_.last(), /*validated=*/true);
  return absl::OkStatus();
}

absl::Status Trainer::EvaluateFinalModel(
    std::optional<ValidationResult>* test) {
  // An early stage is no final model: others go on from it.
  if (schedule_.early_only()) return absl::OkStatus();
  const bool has_test = options_.data->test_samples() > 0;
  if (schedule_.has_late_stage()) {
    if (has_test) RETURN_IF_ERROR(late_stage_.RestoreNearest().status());
  } else if (!validation_.SampleIsWhole()) {
    ASSIGN_OR_RETURN(progress_.validation,
                     validation_.OnWholeSet(progress_.step));
  }
  if (!has_test) return absl::OkStatus();
  ASSIGN_OR_RETURN(*test, validation_.OnTestSet(progress_.step));
  return absl::OkStatus();
}

absl::StatusOr<Trainer::Exported> Trainer::ModelToExport() {
  Exported model;
  if (const std::optional<NearestModel>& nearest = late_stage_.nearest()) {
    ASSIGN_OR_RETURN(model.config,
                     WithRanks(model_.initial_config(), nearest->ranks));
    model.parameters = nearest->parameters;
  } else {
    model.config = model_.plan()->config();
    ASSIGN_OR_RETURN(model.parameters, model_.Parameters());
  }
  return model;
}

absl::StatusOr<RunEnd> Trainer::Finish() {
  RunEnd end;
  std::optional<ValidationResult> test;
  RETURN_IF_ERROR(EvaluateFinalModel(&test));
  if (options_.member() != 0) return end;
  options_.Describe("exporting");
  ASSIGN_OR_RETURN(const Exported model_to_export, ModelToExport());
  const CompactedModel compacted =
      CompactModel(model_to_export.config, model_to_export.parameters);
  progress_.energy_joules = energy_.Joules();
  end.result = MakeTrainingResult(schedule_, progress_,
                                  std::llround(engine_.last().objective.size));
  const v1::ModelSpec& model = options_.spec.model();
  SetLanguageFigures(model, *options_.data, &end.result);
  if (test.has_value()) {
    SetTestResult(model, *options_.data, *test, &end.result);
  }
  SetFileSize(compacted.config, &end.result);
  if (options_.export_model) {
    RETURN_IF_ERROR(options_.export_model(compacted.config,
                                          compacted.parameters, end.result));
  }
  reporter_.ReportRanks(model_to_export.config, model_to_export.parameters);
  reporter_.ReportResult(end.result);
  return end;
}

void Trainer::ReportMetrics(const StepFigures& figures, bool validated) {
  progress_.energy_joules = energy_.Joules();
  reporter_.ReportMetrics(figures, validated);
}

void Trainer::LogGraphs() const {
  const StepRunner::Counters& counters = engine_.graph_counters();
  if (counters.captured + counters.refused == 0) return;
  options_.log(absl::StrCat(
      "graphs: rank=", options_.member(), " captured=", counters.captured,
      " replayed=", counters.replayed, " eager=", counters.eager,
      " refused=", counters.refused));
}

}  // namespace comera::trainer
