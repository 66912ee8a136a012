// The late stage: one approach per target, each from the end of the early
// stage. docs/late_stage.md.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "proto/job_targets.h"
#include "worker/trainer/late/canonical_form.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/loop/trainer.h"
#include "worker/trainer/model/config/model_config.h"

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

}  // namespace

int64_t Trainer::total_steps() const {
  const v1::ObjectiveSpec& objective = options_.spec.objective();
  if (!has_late_stage()) return objective.early().steps();
  const size_t left = targets_.size() - progress_.outcomes.size();
  return objective.early().steps() + progress_.earlier_target_steps() +
         static_cast<int64_t>(left) * objective.late().max_steps();
}

int64_t Trainer::approach_steps() const {
  return progress_.own_step() - options_.spec.objective().early().steps();
}

int64_t Trainer::own_last_step() const {
  const v1::ObjectiveSpec& objective = options_.spec.objective();
  // Also where the late stage is left to other jobs: its end is where the
  // learning rate decays to.
  return objective.early().steps() +
         (objective.has_late() ? objective.late().max_steps() : 0);
}

bool Trainer::Finished() const {
  return has_late_stage() ? progress_.outcomes.size() == targets_.size()
                          : progress_.step >= total_steps();
}

const v1::Target& Trainer::target() const {
  return targets_[std::min(progress_.outcomes.size(), targets_.size() - 1)];
}

Approach Trainer::MakeApproach(const StepFigures& figures) const {
  Approach approach;
  approach.size = figures.objective.size;
  approach.target_size = static_cast<double>(progress_.target_size);
  approach.step = approach_steps();
  approach.max_steps = options_.spec.objective().late().max_steps();
  approach.rate = options_.spec.optimizer().learning_rate_ranks() *
                  figures.learning_rate_scale;
  return approach;
}

bool Trainer::LateStageDue() const {
  return has_late_stage() && progress_.stage != v1::LATE &&
         progress_.step >= options_.spec.objective().early().steps();
}

absl::Status Trainer::EndEarlyStage() {
  RETURN_IF_ERROR(CatchUp());
  if (rank() == 0 && options_.export_early_stage) {
    ASSIGN_OR_RETURN(TrainingState state, Capture());
    state.fingerprint = EarlyStageFingerprint(options_.spec);
    ASSIGN_OR_RETURN(const std::string contents, CheckpointContents(state));
    RETURN_IF_ERROR(options_.export_early_stage(contents));
  }
  RETURN_IF_ERROR(RunValidation());
  ReportMetrics(/*validated=*/true);
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::EnterLateStageIfDue() {
  if (!LateStageDue()) return false;
  if (is_pareto()) {
    // Only living entries can be rewritten.
    RETURN_IF_ERROR(Compact());
    RETURN_IF_ERROR(MakePlanCanonical());
  }
  ASSIGN_OR_RETURN(const ObjectiveStep now,
                   objective_->Measure(plan_->parameters()));
  progress_.stage = v1::LATE;
  progress_.late_size = std::llround(now.size);
  BeginApproach();
  RETURN_IF_ERROR(BindPlan());
  // Every approach starts from known figures.
  RETURN_IF_ERROR(RunValidation());
  if (targets_.size() > 1) RETURN_IF_ERROR(KeepBranchPoint());
  return true;
}

absl::Status Trainer::MakePlanCanonical() {
  if (options_.activity != nullptr) {
    options_.activity->Describe("rewriting the cores for the late stage");
  }
  ASSIGN_OR_RETURN(std::vector<float> parameters,
                   plan_->Download(plan_->parameters()));
  ASSIGN_OR_RETURN(std::vector<float> first_moment,
                   plan_->Download(plan_->first_moment()));
  ASSIGN_OR_RETURN(std::vector<float> second_moment,
                   plan_->Download(plan_->second_moment()));
  const Model& model = plan_->model();
  MakeCanonical(model.layout(), model.tensorised_layers(), parameters.data(),
                first_moment.data(), second_moment.data());
  RETURN_IF_ERROR(plan_->Upload(parameters, plan_->parameters()));
  RETURN_IF_ERROR(plan_->Upload(first_moment, plan_->first_moment()));
  return plan_->Upload(second_moment, plan_->second_moment());
}

void Trainer::BeginApproach() {
  progress_.target_size = ResolveTargetSize(target(), progress_.late_size);
  progress_.targets_met = false;
  nearest_.reset();
  control_.reset();
  if (!is_pareto()) return;
  control_.emplace();
  control_->start_size = static_cast<double>(progress_.late_size);
}

absl::Status Trainer::KeepBranchPoint() {
  BranchPoint branch;
  branch.loss = progress_.loss;
  branch.validation = progress_.validation;
  branch.validation_gap = progress_.validation_gap;
  branch.ranks = RanksOf(plan_->config());
  ASSIGN_OR_RETURN(branch.parameters, plan_->Download(plan_->parameters()));
  ASSIGN_OR_RETURN(branch.first_moment, plan_->Download(plan_->first_moment()));
  ASSIGN_OR_RETURN(branch.second_moment,
                   plan_->Download(plan_->second_moment()));
  ASSIGN_OR_RETURN(branch.projectors, plan_->Download(plan_->projectors()));
  branch_ = std::move(branch);
  return absl::OkStatus();
}

absl::Status Trainer::ReturnToBranchPoint() {
  const BranchPoint& branch = *branch_;
  RETURN_IF_ERROR(Rebuild(branch));
  progress_.loss = branch.loss;
  progress_.validation = branch.validation;
  progress_.validation.step = progress_.step;
  progress_.validation_gap = branch.validation_gap;
  BeginApproach();
  RETURN_IF_ERROR(BindPlan());
  last_.objective.size = static_cast<double>(progress_.late_size);
  RETURN_IF_ERROR(JudgeTarget(progress_.late_size));
  if (progress_.outcomes.size() + 1 == targets_.size()) branch_.reset();
  return ReportRanks();
}

absl::Status Trainer::JudgeTarget(int64_t size) {
  progress_.targets_met = size <= progress_.target_size &&
                          progress_.validation.loss <= target().target_loss();
  if (rank() != 0) return absl::OkStatus();
  const v1::LateStage& late = options_.spec.objective().late();
  const auto initial = static_cast<double>(progress_.initial_size);
  const bool small_enough = size <= progress_.target_size;
  const double distance =
      std::max(
          late.w_loss() * (progress_.validation.loss - target().target_loss()),
          late.w_size() * static_cast<double>(size - progress_.target_size) /
              initial) +
      late.rho() *
          (progress_.validation.loss + static_cast<double>(size) / initial);
  // A model that is small enough is nearer than any that is not: steps on the
  // loss can still follow, but a size that was asked for is a promise.
  if (!progress_.targets_met && nearest_.has_value() &&
      (nearest_->small_enough > small_enough ||
       (nearest_->small_enough == small_enough &&
        nearest_->distance <= distance))) {
    return absl::OkStatus();
  }
  NearestModel nearest;
  nearest.validation = progress_.validation;
  nearest.size = size;
  nearest.small_enough = small_enough;
  nearest.distance = distance;
  nearest.ranks = RanksOf(plan_->config());
  ASSIGN_OR_RETURN(nearest.parameters, plan_->Download(plan_->parameters()));
  nearest_ = std::move(nearest);
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::EndTargetsIfDue() {
  bool ended = false;
  const int64_t max_steps = options_.spec.objective().late().max_steps();
  while (progress_.stage == v1::LATE && !Finished() &&
         (progress_.targets_met || approach_steps() >= max_steps)) {
    ended = true;
    TargetOutcome outcome;
    outcome.met = progress_.targets_met;
    outcome.target_size = progress_.target_size;
    outcome.steps = approach_steps();
    if (nearest_.has_value()) {
      outcome.validation = nearest_->validation;
      outcome.size = nearest_->size;
    }
    const size_t index = progress_.outcomes.size();
    progress_.outcomes.push_back(outcome);
    if (targets_.size() > 1) RETURN_IF_ERROR(ExportTarget(index));
    if (!Finished()) RETURN_IF_ERROR(ReturnToBranchPoint());
  }
  return ended;
}

absl::Status Trainer::ExportTarget(size_t index) {
  if (rank() != 0 || !options_.export_target || !nearest_.has_value()) {
    return absl::OkStatus();
  }
  if (options_.activity != nullptr) options_.activity->Describe("exporting");
  v1::TrainingResult result;
  FillResult(progress_.outcomes[index], &result);
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, nearest_->ranks));
  return ExportCompacted(
      config, nearest_->parameters,
      [&](const ModelConfig& compacted, const std::vector<float>& parameters) {
        return options_.export_target(static_cast<int>(index), compacted,
                                      parameters, result);
      });
}

}  // namespace comera::trainer
