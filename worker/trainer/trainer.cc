#include "worker/trainer/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/failure.h"
#include "worker/trainer/model/compaction.h"
#include "worker/trainer/optimizer/learning_rate.h"
#include "worker/trainer/progress_events.h"
#include "worker/trainer/validation.h"

namespace comera::trainer {
namespace {

// Least steps between two validations that only hope asked for.
constexpr int64_t kHopefulValidationSteps = 20;

absl::Status NotFinite(int64_t step, absl::string_view what, double value) {
  return WithFailureClass(
      absl::InternalError(absl::StrCat("step ", step, ": ", what, " is ", value,
                                       "; a lower learning rate may help")),
      v1::NAN_LOSS);
}

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
    if (last_.stop && !Finished()) {
      SaveCheckpoint();
      RunEnd end;
      end.stopped = true;
      return end;
    }
  }
  return Finish();
}

absl::Status Trainer::TrainStep(bool stop) {
  const int64_t own_step = progress_.own_step();
  const TrainingPhase& phase = phases_.At(own_step);
  RETURN_IF_ERROR(PlanFor(phase));
  RETURN_IF_ERROR(options_.data->TrainBatch(own_step, phase.batch_size, rank(),
                                            world_size(), &batch_));
  batch_.global_size = batch_.size * world_size();
  const int64_t tokens =
      std::count(batch_.mask.begin(), batch_.mask.end(), 1.0f);
  const int64_t labels = static_cast<int64_t>(batch_.labels.size());
  const bool seal =
      options_.seal_steps && tokens <= warm_tokens_ && labels <= warm_labels_;
  warm_tokens_ = std::max(warm_tokens_, tokens);
  warm_labels_ = std::max(warm_labels_, labels);
  if (!seal) return RunStep(stop);
  options_.backend->Seal();
  absl::Status status = RunStep(stop);
  status.Update(options_.backend->Unseal());
  return status;
}

absl::Status Trainer::RunStep(bool stop) {
  const v1::JobSpec& spec = options_.spec;
  kernels::Backend& backend = *options_.backend;
  const int64_t own_step = progress_.own_step();
  ModelPlan& plan = *plan_;
  const kernels::StepState step_state{spec.training().seed(),
                                      static_cast<uint64_t>(own_step)};
  auto* device_state =
      static_cast<kernels::StepState*>(arena_.Address(device_state_));
  RETURN_IF_ERROR(
      backend.CopyToDevice(device_state, &step_state, sizeof(step_state)));
  RETURN_IF_ERROR(backend.Fill(plan.reduced(), 0));
  RETURN_IF_ERROR(plan.model().Forward(batch_, plan.parameters().data,
                                       /*train=*/true, device_state));
  RETURN_IF_ERROR(
      plan.model().Backward(plan.parameters().data, plan.gradients().data));
  ASSIGN_OR_RETURN(const LossTotals own, plan.model().ReadLoss());
  LossTotals global;
  RETURN_IF_ERROR(ReduceGradients(own, stop, &global));

  const int64_t number = progress_.step + 1;
  const double labels = std::max(1.0, global.labels);
  last_.loss = global.loss_sum / labels;
  if (!std::isfinite(last_.loss)) {
    return NotFinite(number, "training loss", last_.loss);
  }
  progress_.loss.Add(last_.loss);
  if (size_controller_ != nullptr) {
    RETURN_IF_ERROR(size_controller_->Observe(plan.trained_parameters(),
                                              plan.gradients(), 1 / labels));
  }
  ASSIGN_OR_RETURN(
      last_.objective,
      objective_->Apply({last_.loss, EstimatedValidationLoss()},
                        progress_.stage, 1 / labels, plan.trained_parameters(),
                        plan.gradients()));
  last_.learning_rate_scale = LearningRateScale(spec.optimizer().decay(),
                                                spec.optimizer().warmup_steps(),
                                                own_last_step(), own_step);
  ASSIGN_OR_RETURN(last_.gradient_norm,
                   optimizer_->Step(own_step + 1, last_.learning_rate_scale,
                                    plan.parameters(), plan.gradients(),
                                    plan.optimizer_state()));
  if (!std::isfinite(last_.gradient_norm)) {
    return NotFinite(number, "gradient norm", last_.gradient_norm);
  }
  if (size_controller_ != nullptr) {
    const Approach approach = MakeApproach();
    last_.objective.on_size =
        last_.objective.on_size || size_controller_->Due(approach);
    RETURN_IF_ERROR(size_controller_->Step(last_.objective.on_size, approach,
                                           plan.parameters()));
  }
  last_.stage = progress_.stage;
  progress_.step = number;
  return absl::OkStatus();
}

absl::Status Trainer::ReduceGradients(const LossTotals& totals, bool stop,
                                      LossTotals* global) {
  kernels::Backend& backend = *options_.backend;
  const kernels::Vector reduced = plan_->reduced();
  std::array<float, ModelPlan::kTailFloats> tail = {
      static_cast<float>(totals.loss_sum), static_cast<float>(totals.labels),
      static_cast<float>(totals.correct), stop ? 1.0f : 0.0f};
  float* device_tail = reduced.data + plan_->trained_size();
  if (world_size() > 1) {
    RETURN_IF_ERROR(
        backend.CopyToDevice(device_tail, tail.data(), sizeof(tail)));
    collective::Communicator& gang = *options_.communicator;
    const auto values = absl::MakeSpan(reduced.data, reduced.size);
    if (!gang.on_device()) RETURN_IF_ERROR(backend.Synchronize());
    RETURN_IF_ERROR(WithFailureClass(gang.on_device()
                                         ? gang.EnqueueAllReduce(values)
                                         : gang.AllReduce(values),
                                     v1::COLLECTIVE_HANG));
    RETURN_IF_ERROR(backend.CopyToHost(tail.data(), device_tail, sizeof(tail)));
  }
  *global = {tail[0], tail[1], tail[2]};
  last_.stop = tail[3] > 0;
  return absl::OkStatus();
}

absl::Status Trainer::AfterStep() {
  const v1::JobSpec& spec = options_.spec;
  if (rank_controller_->Due(progress_.own_step())) RETURN_IF_ERROR(Compact());
  ASSIGN_OR_RETURN(bool validated, EnterLateStageIfDue());
  if (!validated && ValidationDue()) {
    RETURN_IF_ERROR(RunValidation());
    validated = true;
  }
  if (validated || progress_.step == first_step_ + 1 ||
      progress_.step % spec.training().report_every_steps() == 0) {
    ReportMetrics(validated);
  }
  // What was found out about a target is kept.
  ASSIGN_OR_RETURN(const bool target_ended, EndTargetsIfDue());
  if (!Finished() &&
      (target_ended || progress_.step % spec.checkpoint().every_steps() == 0)) {
    SaveCheckpoint();
  }
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

bool Trainer::ValidationDue() const {
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
  ASSIGN_OR_RETURN(
      progress_.validation,
      Validate(*options_.data, ValidationSamples(),
               static_cast<kernels::StepState*>(arena_.Address(device_state_)),
               *plan_, options_.communicator));
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
