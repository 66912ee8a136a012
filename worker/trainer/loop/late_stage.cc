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

namespace comera::trainer {
namespace {

int64_t ResolveTargetSize(const v1::Target& target, int64_t late_size) {
  switch (target.target_size_case()) {
    case v1::Target::kTargetBytes:
      return target.target_bytes() / kBytesPerParameter;
    case v1::Target::kTargetParameters:
      return target.target_parameters();
    case v1::Target::kTargetRatio:
      return static_cast<int64_t>(target.target_ratio() *
                                  static_cast<double>(late_size));
    default:
      return late_size;
  }
}

absl::Status CheckSize(const std::string& what,
                       const std::vector<float>& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) == size) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoint: a buffer of ", what,
                                          " holds ", buffer.size(),
                                          " numbers, for its ranks ", size));
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
    RETURN_IF_ERROR(CheckFits(*state.branch));
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
  return CheckSize("the nearest model", nearest.parameters,
                   MakeModelLayout(config).parameters.size());
}

absl::Status LateStage::CheckFits(const BranchPoint& branch) const {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(model_.initial_config(), branch.ranks));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const std::string what = "the end of the early stage";
  RETURN_IF_ERROR(CheckSize(what, branch.parameters, layout.size()));
  RETURN_IF_ERROR(CheckSize(what, branch.first_moment, layout.moments_size()));
  RETURN_IF_ERROR(CheckSize(what, branch.second_moment, layout.moments_size()));
  return CheckSize(what, branch.projectors, layout.projectors_size());
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
      ResolveTargetSize(schedule_.target(progress_), progress_.late_size);
  progress_.targets_met = false;
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

absl::Status LateStage::Judge(int64_t size) {
  const bool small_enough = size <= progress_.target_size;
  ValidationResult decisive = progress_.validation;
  progress_.targets_met = progress_.validation.refuted = false;
  if (small_enough) {
    ASSIGN_OR_RETURN(progress_.targets_met,
                     ConfirmQuality(progress_.validation, &decisive));
    progress_.validation.refuted =
        !progress_.targets_met &&
        schedule_.quality(progress_).SeemsMetBy(progress_.validation);
  }
  if (options_.member() != 0) return absl::OkStatus();
  // Models are compared by figures of the same sample.
  const double distance = Distance(progress_.validation, size);
  // A model that is small enough is nearer than any that is not: steps on the
  // loss can still follow, but a size that was asked for is a promise.
  if (!progress_.targets_met && nearest_.has_value() &&
      (nearest_->small_enough > small_enough ||
       (nearest_->small_enough == small_enough &&
        nearest_->distance <= distance))) {
    return absl::OkStatus();
  }
  NearestModel nearest;
  nearest.validation = progress_.targets_met ? decisive : progress_.validation;
  nearest.size = size;
  nearest.small_enough = small_enough;
  nearest.distance = distance;
  nearest.ranks = RanksOf(model_.plan()->config());
  ASSIGN_OR_RETURN(nearest.parameters, model_.Parameters());
  nearest_ = std::move(nearest);
  return absl::OkStatus();
}

absl::StatusOr<bool> LateStage::EndTargetsIfDue() {
  bool ended = false;
  const int64_t max_steps = options_.spec.objective().late().max_steps();
  while (progress_.stage == v1::LATE && !schedule_.Finished(progress_) &&
         (progress_.targets_met ||
          schedule_.ApproachSteps(progress_) >= max_steps)) {
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
  return options_.export_target(static_cast<int>(index), model.config,
                                model.parameters,
                                MakeTargetResult(progress_.outcomes[index]));
}

}  // namespace comera::trainer
