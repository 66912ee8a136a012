// Approaches the targets of the late stage one after the other.
#include "worker/trainer/loop/late_stage.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/loop/compacted_model.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/loop/quality_target.h"
#include "worker/trainer/loop/state_sharing.h"
#include "worker/trainer/loop/training_result.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

// The parameters that the model may have. Bytes are those of the exported file,
// whose header is largest now: ranks only fall.
int64_t ResolveTargetSize(const v1::Target& target, const ModelConfig& config,
                          int64_t late_size) {
  switch (target.target_size_case()) {
    case v1::Target::kTargetBytes:
      return std::max<int64_t>(
          0, (target.target_bytes() - ExportedHeaderBytes(config)) /
                 kBytesPerParameter);
    case v1::Target::kTargetParameters:
      return target.target_parameters();
    case v1::Target::kTargetRatio:
      return static_cast<int64_t>(target.target_ratio() *
                                  static_cast<double>(late_size));
    default:
      return late_size;
  }
}

}  // namespace

LateStage::LateStage(const TrainerOptions* options,
                     const TrainingSchedule* schedule,
                     TrainingProgress* progress, TrainedModel* model,
                     StepEngine* engine, StepReporter* reporter)
    : options_(*options),
      schedule_(*schedule),
      progress_(*progress),
      model_(*model),
      engine_(*engine),
      reporter_(*reporter),
      validation_(options, schedule, model, engine) {}

absl::Status LateStage::Check(const TrainingState& state) const {
  if (state.nearest.has_value()) {
    RETURN_IF_ERROR(CheckFits(*state.nearest));
  }
  if (state.branch.has_value()) {
    RETURN_IF_ERROR(
        model_.CheckFits("the end of the early stage", *state.branch));
  }
  const bool late = state.progress.stage == v1::LATE;
  const size_t ended = state.progress.outcomes.size();
  const size_t targets = schedule_.targets().size();
  if ((late && !schedule_.has_late_stage()) || (!late && ended > 0) ||
      (late && ended >= targets) ||
      (late && ended + 1 < targets && !state.branch.has_value()) ||
      state.control.has_value() != (late && schedule_.is_pareto())) {
    return absl::DataLossError(
        "checkpoint: its stage and targets are not those of the job");
  }
  return absl::OkStatus();
}

absl::Status LateStage::CheckFits(const NearestModel& nearest) const {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(model_.initial_config(), nearest.ranks));
  const int64_t size = MakeModelLayout(config).parameters.size();
  const auto given = static_cast<int64_t>(nearest.parameters.size());
  if (given == size) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("checkpoint: a buffer of the nearest model holds ", given,
                   " numbers, for its ranks ", size));
}

void LateStage::Load(std::optional<NearestModel> nearest,
                     std::optional<BranchPoint> branch) {
  nearest_ = std::move(nearest);
  branch_ = std::move(branch);
}

void LateStage::Capture(TrainingState* state) const {
  state->nearest = nearest_;
  state->branch = branch_;
}

absl::Status LateStage::Enter() {
  if (schedule_.is_pareto()) {
    options_.Describe("rewriting the cores for the late stage");
    RETURN_IF_ERROR(model_.Canonicalise());
  }
  ASSIGN_OR_RETURN(const ObjectiveStep now,
                   model_.objective()->Measure(model_.plan()->parameters()));
  progress_.stage = v1::LATE;
  progress_.late_size = std::llround(now.size);
  BeginApproach();
  return engine_.Rebind();
}

void LateStage::BeginApproach() {
  progress_.target_size =
      ResolveTargetSize(schedule_.target(progress_), model_.plan()->config(),
                        progress_.late_size);
  progress_.targets_met = false;
  progress_.spikes.Restart();
  nearest_.reset();
  model_.BeginSizeControl(static_cast<double>(progress_.late_size));
}

absl::Status LateStage::KeepBranchPoint() {
  if (schedule_.targets().size() == 1) return absl::OkStatus();
  BranchPoint branch;
  branch.loss = progress_.loss;
  branch.validation = progress_.validation;
  branch.validation_gap = progress_.validation_gap;
  RETURN_IF_ERROR(model_.Download(&branch));
  branch_ = std::move(branch);
  return absl::OkStatus();
}

absl::Status LateStage::ReturnToBranchPoint() {
  const BranchPoint& branch = *branch_;
  RETURN_IF_ERROR(
      model_.Restore(branch, schedule_.phases().At(progress_.own_step())));
  progress_.loss = branch.loss;
  progress_.validation = branch.validation;
  progress_.validation.step = progress_.step;
  progress_.validation_gap = branch.validation_gap;
  BeginApproach();
  RETURN_IF_ERROR(engine_.Rebind());
  engine_.set_last_size(static_cast<double>(progress_.late_size));
  RETURN_IF_ERROR(Judge(progress_.late_size));
  if (progress_.outcomes.size() + 1 == schedule_.targets().size()) {
    branch_.reset();
  }
  return reporter_.ReportRanks();
}

double LateStage::Distance(const ValidationResult& validation,
                           int64_t size) const {
  const v1::LateStage& late = options_.spec.objective().late();
  const QualityTarget quality = schedule_.quality(progress_);
  const auto initial = static_cast<double>(progress_.initial_size);
  return std::max(
             late.w_loss() * (quality.LevelOf(validation) - quality.goal()),
             late.w_size() * static_cast<double>(size - progress_.target_size) /
                 initial) +
         late.rho() * (validation.loss + static_cast<double>(size) / initial);
}

absl::StatusOr<bool> LateStage::ConfirmQuality(
    const ValidationResult& validation, ValidationResult* decisive) {
  const QualityTarget quality = schedule_.quality(progress_);
  *decisive = validation;
  if (!quality.SeemsMetBy(validation)) return false;
  if (!validation_.SampleIsWhole()) {
    ASSIGN_OR_RETURN(*decisive, validation_.OnWholeSet(validation.step));
  }
  return quality.MetBy(*decisive);
}

bool LateStage::Meets(const NearestModel& model) const {
  return model.small_enough && !model.validation.refuted &&
         schedule_.quality(progress_).MetBy(model.validation);
}

bool LateStage::IsNearer(const NearestModel& model,
                         const NearestModel& than) const {
  const bool meets = Meets(model);
  if (meets != Meets(than)) return meets;
  if (meets) return model.validation.loss < than.validation.loss;
  // A model that is small enough is nearer than any that is not: steps on the
  // loss can still follow, but a size that was asked for is a promise. The
  // achievement scalarisation weighs it against the loss instead.
  if (options_.spec.objective().late().mode() != v1::LateStage::ACHIEVEMENT &&
      model.small_enough != than.small_enough) {
    return model.small_enough;
  }
  return model.distance < than.distance;
}

absl::Status LateStage::Judge(int64_t size) {
  ValidationResult& validation = progress_.validation;
  ValidationResult decisive = validation;
  NearestModel nearest;
  nearest.size = size;
  nearest.small_enough = size <= progress_.target_size;
  bool met = false;
  validation.refuted = false;
  if (nearest.small_enough) {
    ASSIGN_OR_RETURN(met, ConfirmQuality(validation, &decisive));
    validation.refuted =
        !met && schedule_.quality(progress_).SeemsMetBy(validation);
  }
  // With continue_after_met, later models may miss the quality again.
  progress_.targets_met |= met;
  if (options_.member() != 0) return absl::OkStatus();
  nearest.validation = met ? decisive : validation;
  // Models are compared by figures of the same sample.
  nearest.distance = Distance(validation, size);
  if (nearest_.has_value() && !IsNearer(nearest, *nearest_)) {
    return absl::OkStatus();
  }
  nearest.ranks = RanksOf(model_.plan()->config());
  ASSIGN_OR_RETURN(nearest.parameters, model_.Parameters());
  nearest_ = std::move(nearest);
  return absl::OkStatus();
}

absl::StatusOr<bool> LateStage::EndTargetsIfDue() {
  bool ended = false;
  const v1::LateStage& late = options_.spec.objective().late();
  while (progress_.stage == v1::LATE && !schedule_.Finished(progress_) &&
         ((progress_.targets_met && !late.continue_after_met()) ||
          schedule_.ApproachSteps(progress_) >= late.max_steps())) {
    ended = true;
    RETURN_IF_ERROR(EndApproach());
  }
  return ended;
}

absl::StatusOr<NearestModel> LateStage::RestoreNearest() {
  ASSIGN_OR_RETURN(NearestModel nearest,
                   ShareNearest(options_.communicator, nearest_));
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(model_.initial_config(), nearest.ranks));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  ModelState state;
  state.ranks = nearest.ranks;
  state.parameters = nearest.parameters;
  state.first_moment.resize(layout.moments_size());
  state.second_moment.resize(layout.moments_size());
  state.projectors.resize(layout.projectors_size());
  RETURN_IF_ERROR(model_.Restore(state, schedule_.phases().last()));
  return nearest;
}

absl::Status LateStage::MeasureNearest() {
  if (validation_.SampleIsWhole() || progress_.targets_met) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const NearestModel nearest, RestoreNearest());
  ASSIGN_OR_RETURN(const ValidationResult whole,
                   validation_.OnWholeSet(nearest.validation.step));
  if (nearest_.has_value()) nearest_->validation = whole;
  progress_.targets_met =
      nearest.small_enough && schedule_.quality(progress_).MetBy(whole);
  return absl::OkStatus();
}

absl::Status LateStage::EndApproach() {
  RETURN_IF_ERROR(MeasureNearest());
  TargetOutcome outcome;
  outcome.met = progress_.targets_met;
  outcome.target_size = progress_.target_size;
  outcome.steps = schedule_.ApproachSteps(progress_);
  if (nearest_.has_value()) {
    outcome.validation = nearest_->validation;
    outcome.size = nearest_->size;
  }
  const size_t index = progress_.outcomes.size();
  progress_.outcomes.push_back(outcome);
  if (schedule_.targets().size() > 1) RETURN_IF_ERROR(ExportTarget(index));
  return schedule_.Finished(progress_) ? absl::OkStatus()
                                       : ReturnToBranchPoint();
}

absl::Status LateStage::ExportTarget(size_t index) {
  if (options_.member() != 0 || !options_.export_target ||
      !nearest_.has_value()) {
    return absl::OkStatus();
  }
  options_.Describe("exporting");
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(model_.initial_config(), nearest_->ranks));
  const CompactedModel model = CompactModel(config, nearest_->parameters);
  v1::TrainingResult result = MakeTargetResult(progress_.outcomes[index]);
  SetFileSize(model.config, &result);
  return options_.export_target(static_cast<int>(index), model.config,
                                model.parameters, result);
}

}  // namespace comera::trainer
