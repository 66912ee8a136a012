#include "worker/trainer/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/loop/validation.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/compaction.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

// Least steps between two validations that only hope asked for.
constexpr int64_t kHopefulValidationSteps = 20;

}  // namespace

int Trainer::rank() const {
  return options_.communicator == nullptr ? 0 : options_.communicator->rank();
}

int Trainer::world_size() const {
  return options_.communicator == nullptr ? 1
                                          : options_.communicator->world_size();
}

int64_t Trainer::ValidationSamples() const {
  const int64_t all = options_.data->validation_samples();
  const int64_t wanted = options_.spec.training().validation_samples();
  return wanted < 0 ? all : std::min(wanted, all);
}

double Trainer::EstimatedValidationLoss() const {
  return progress_.loss.value() + progress_.validation_gap;
}

absl::StatusOr<RunEnd> Trainer::Run(const std::atomic<bool>& stop) {
  absl::StatusOr<RunEnd> end = Train(stop);
  LogGraphs();
  // The others would wait for this rank until their time-out.
  if (!end.ok() && options_.communicator != nullptr) {
    options_.communicator->Abort();
  }
  return end;
}

absl::StatusOr<RunEnd> Trainer::Train(const std::atomic<bool>& stop) {
  ReportRunInfo();
  RETURN_IF_ERROR(ReportRanks());
  reported_time_ = options_.clock->Now();
  RETURN_IF_ERROR(EnterLateStageIfDue().status());
  RETURN_IF_ERROR(EndTargetsIfDue().status());
  while (!Finished()) {
    if (options_.activity != nullptr) {
      options_.activity->Set(progress_.stage, progress_.step);
    }
    RETURN_IF_ERROR(TrainStep(stop.load()));
    RETURN_IF_ERROR(AfterStep());
    // What all ranks know by now, also where one looked ahead for a snapshot.
    const int64_t known = progress_.step - (figures_known_ ? 0 : 1);
    if (stop_step_ >= 0 && stop_step_ <= known && !Finished()) {
      RETURN_IF_ERROR(CatchUp());
      SaveCheckpoint();
      RunEnd end;
      end.stopped = true;
      return end;
    }
  }
  if (early_only()) RETURN_IF_ERROR(EndEarlyStage());
  return Finish();
}

absl::Status Trainer::AfterStep() {
  figures_known_ = FiguresNeeded();
  if (!figures_known_) return TakeSnapshotIfDue();
  // Those of this step; earlier ones were taken.
  while (!pending_.empty()) RETURN_IF_ERROR(TakeStep());
  if (rank_controller_->Due(progress_.own_step())) RETURN_IF_ERROR(Compact());
  ASSIGN_OR_RETURN(bool validated, EnterLateStageIfDue());
  if (!validated && ValidationDue()) {
    RETURN_IF_ERROR(RunValidation());
    validated = true;
  }
  if (validated || ReportDue()) ReportMetrics(validated);
  // What was found out about a target is kept.
  ASSIGN_OR_RETURN(const bool target_ended, EndTargetsIfDue());
  if (!Finished() && (target_ended || CheckpointDue())) {
    SaveCheckpoint();
    return absl::OkStatus();
  }
  return TakeSnapshotIfDue();
}

absl::Status Trainer::TakeSnapshotIfDue() {
  const int64_t every = options_.snapshot_every_steps;
  if (rank() != 0 || checkpoints_ == nullptr || every <= 0 || Finished() ||
      progress_.step - saved_step_ < every) {
    return absl::OkStatus();
  }
  const absl::Time begin = SteadyNow();
  if (begin - snapshot_time_ < 20 * snapshot_cost_) return absl::OkStatus();
  RETURN_IF_ERROR(CatchUp());
  SaveSnapshot();
  snapshot_time_ = SteadyNow();
  snapshot_cost_ = snapshot_time_ - begin;
  return absl::OkStatus();
}

absl::Status Trainer::Compact() {
  if (size_controller_ != nullptr) {
    ASSIGN_OR_RETURN(control_,
                     size_controller_->Compacted(plan_->parameters()));
  }
  ASSIGN_OR_RETURN(const bool changed, rank_controller_->Compact(&plan_));
  if (!changed) return absl::OkStatus();
  RETURN_IF_ERROR(BindPlan());
  return ReportRanks();
}

bool Trainer::CheckpointDue() const {
  return progress_.step % options_.spec.checkpoint().every_steps() == 0;
}

bool Trainer::FiguresNeeded() const {
  // The late stage decides in every step.
  if (late_numbers_ == nullptr || !options_.backend->has_graphs()) return true;
  return rank_controller_->Due(progress_.own_step()) || LateStageDue() ||
         ValidationDue() || CheckpointDue() || Finished();
}

bool Trainer::ValidationDue() const {
  // A late stage begins with one of its own.
  if (early_only() && Finished()) return false;
  const int64_t own_step = progress_.own_step();
  if (own_step % options_.spec.training().validate_every_steps() == 0 ||
      own_step == own_last_step()) {
    return true;
  }
  return progress_.stage == v1::LATE &&
         progress_.step - progress_.validation.step >=
             kHopefulValidationSteps &&
         last_.objective.size <= static_cast<double>(progress_.target_size) &&
         EstimatedValidationLoss() <= target().target_loss();
}

absl::Status Trainer::RunValidation() {
  if (options_.activity != nullptr) options_.activity->Describe("validating");
  RETURN_IF_ERROR(PlanFor(phases_.last()));
  ASSIGN_OR_RETURN(progress_.validation,
                   Validate(*options_.data, ValidationSamples(), device_state(),
                            *plan_, options_.communicator, options_.activity));
  progress_.validation.step = progress_.step;
  if (!std::isfinite(progress_.validation.loss)) {
    return NotFinite(progress_.step, "validation loss",
                     progress_.validation.loss);
  }
  progress_.validation_gap = progress_.validation.loss - progress_.loss.value();
  ASSIGN_OR_RETURN(const ObjectiveStep now,
                   objective_->Measure(plan_->parameters()));
  last_.objective.size = now.size;
  const auto size = static_cast<int64_t>(std::llround(now.size));
  const ParetoCandidate candidate{progress_.step, progress_.validation.loss,
                                  size};
  if (progress_.front.Add(candidate)) {
    v1::TrainerEvent event;
    *event.mutable_pareto_point() = ToProto(candidate);
    Emit(std::move(event));
  }
  return progress_.stage == v1::LATE ? JudgeTarget(size) : absl::OkStatus();
}

void Trainer::LogGraphs() {
  const StepRunner::Counters& counters = runner_.counters();
  if (counters.captured + counters.refused == 0) return;
  options_.log(
      absl::StrCat("graphs: rank=", rank(), " captured=", counters.captured,
                   " replayed=", counters.replayed, " eager=", counters.eager,
                   " refused=", counters.refused));
}

absl::StatusOr<RunEnd> Trainer::Finish() {
  RunEnd end;
  if (rank() != 0) return end;
  ModelConfig config = plan_->config();
  ASSIGN_OR_RETURN(std::vector<float> parameters,
                   plan_->Download(plan_->parameters()));
  if (nearest_.has_value()) {
    ASSIGN_OR_RETURN(config, WithRanks(initial_config_, nearest_->ranks));
    parameters = nearest_->parameters;
  }
  if (options_.activity != nullptr) options_.activity->Describe("exporting");
  end.result = MakeResult();
  if (options_.export_model) {
    RETURN_IF_ERROR(ExportCompacted(
        config, parameters,
        [&](const ModelConfig& compacted, const std::vector<float>& values) {
          return options_.export_model(compacted, values, end.result);
        }));
  }
  v1::TrainerEvent event;
  *event.mutable_rank_snapshot() =
      MakeRankSnapshot(progress_.step, initial_config_, config, parameters);
  Emit(std::move(event));
  event.Clear();
  *event.mutable_result() = end.result;
  Emit(std::move(event));
  return end;
}

absl::Status Trainer::ExportCompacted(
    const ModelConfig& config, const std::vector<float>& parameters,
    const std::function<absl::Status(const ModelConfig&,
                                     const std::vector<float>&)>& write) {
  const CompactionPlan compaction = PlanCompaction(config, parameters.data());
  std::vector<float> compacted(compaction.new_layout.parameters.size());
  CompactBuffer(compaction, parameters.data(), compacted.data());
  return write(compaction.config, compacted);
}

}  // namespace comera::trainer
