// The numbers of a step: gradients, their sum over the ranks, the update.
#include <algorithm>
#include <cmath>

#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/loop/trainer.h"
#include "worker/trainer/optimizer/learning_rate.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

absl::Status Trainer::TrainStep(bool stop) {
  const int64_t own_step = progress_.own_step();
  const TrainingPhase& phase = phases_.At(own_step);
  if (options_.activity != nullptr &&
      (&phase != stepped_phase_ || progress_.stage != stepped_stage_)) {
    // It may take many times as long as those before it.
    options_.activity->Describe("the first step of its kind");
  }
  stepped_phase_ = &phase;
  stepped_stage_ = progress_.stage;
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
  if (seal) options_.backend->Seal();
  absl::Status status = RunStep(stop);
  if (seal) status.Update(options_.backend->Unseal());
  RETURN_IF_ERROR(status);
  // The step before, by now, is done.
  while (pending_.size() > 1) {
    RETURN_IF_ERROR(TakeStep());
    if (ReportDue()) ReportMetrics(/*validated=*/false);
  }
  return absl::OkStatus();
}

absl::Status Trainer::RunStep(bool stop) {
  const v1::JobSpec& spec = options_.spec;
  const int64_t own_step = progress_.own_step();
  StepFigures figures;
  figures.step = progress_.step + 1;
  figures.stage = progress_.stage;
  figures.learning_rate_scale = LearningRateScale(
      spec.optimizer().decay(), spec.optimizer().warmup_steps(),
      own_last_step(), own_step);
  DeviceStep device;
  device.state.seed = spec.training().seed();
  device.state.step = static_cast<uint64_t>(own_step);
  device.stop = stop ? 1 : 0;
  optimizer_->FillState(own_step + 1, figures.learning_rate_scale,
                        &device.state);
  RETURN_IF_ERROR(
      options_.backend->CopyToDevice(device_step(), &device, sizeof(device)));
  Model& model = plan_->model();
  RETURN_IF_ERROR(model.SetBatch(batch_, /*train=*/true, device_state()));
  shape_.clear();
  model.AppendShape(&shape_);
  // All in one where there is nobody to sum with. A gang sums between two
  // graphs: NCCL wants a captured sum captured and replayed by all ranks alike,
  // and whether a rank replays depends on the shape of its own batch.
  const bool update = late_numbers_ != nullptr && world_size() == 1;
  RETURN_IF_ERROR(runner_
                      .Run(shape_,
                           [&]() -> absl::Status {
                             RETURN_IF_ERROR(EnqueueGradients());
                             return update ? EnqueueUpdate() : absl::OkStatus();
                           })
                      .status());
  if (world_size() > 1) RETURN_IF_ERROR(ReduceGradients());
  if (late_numbers_ == nullptr) {
    RETURN_IF_ERROR(UpdateFromHost(&figures));
    last_ = figures;
  } else {
    // It is the same for all batches.
    if (!update) {
      RETURN_IF_ERROR(
          runner_.Run({}, [this] { return EnqueueUpdate(); }).status());
    }
    RETURN_IF_ERROR(late_numbers_->Fetch());
    pending_.push_back(figures);
  }
  progress_.step = figures.step;
  return absl::OkStatus();
}

absl::Status Trainer::EnqueueGradients() {
  kernels::Backend& backend = *options_.backend;
  Model& model = plan_->model();
  RETURN_IF_ERROR(backend.Fill(plan_->reduced(), 0));
  RETURN_IF_ERROR(model.Forward(plan_->parameters().data));
  RETURN_IF_ERROR(
      model.Backward(plan_->parameters().data, plan_->gradients().data));
  static_assert(ModelPlan::kTailFloats == 4);
  RETURN_IF_ERROR(backend.Copy(tail(), model.totals(), 3 * sizeof(float)));
  return backend.Copy(tail() + 3, &device_step()->stop, sizeof(float));
}

absl::Status Trainer::CheckGang() {
  if (world_size() == 1 || !options_.communicator->on_device()) {
    return absl::OkStatus();
  }
  return WithFailureClass(options_.communicator->Replayed(0),
                          v1::COLLECTIVE_HANG);
}

absl::Status Trainer::ReduceGradients() {
  collective::Communicator& gang = *options_.communicator;
  const kernels::Vector reduced = plan_->reduced();
  const auto values = absl::MakeSpan(reduced.data, reduced.size);
  if (gang.on_device()) {
    return WithFailureClass(gang.EnqueueAllReduce(values), v1::COLLECTIVE_HANG);
  }
  kernels::Backend& backend = *options_.backend;
  if (backend.in_host_memory()) {
    RETURN_IF_ERROR(backend.Synchronize());
    return WithFailureClass(gang.AllReduce(values), v1::COLLECTIVE_HANG);
  }
  // A communicator of the host cannot reach the device's memory.
  ASSIGN_OR_RETURN(std::vector<float> sums, plan_->Download(reduced));
  RETURN_IF_ERROR(WithFailureClass(gang.AllReduce(absl::MakeSpan(sums)),
                                   v1::COLLECTIVE_HANG));
  return plan_->Upload(sums, reduced);
}

absl::Status Trainer::EnqueueUpdate() {
  RETURN_IF_ERROR(objective_->Enqueue(tail() + 1, plan_->trained_parameters(),
                                      plan_->gradients()));
  return optimizer_->Enqueue(device_state(), plan_->parameters(),
                             plan_->gradients(), plan_->optimizer_state());
}

absl::Status Trainer::UpdateFromHost(StepFigures* figures) {
  ModelPlan& plan = *plan_;
  float tail[ModelPlan::kTailFloats];
  RETURN_IF_ERROR(
      options_.backend->CopyToHost(tail, this->tail(), sizeof(tail)));
  RETURN_IF_ERROR(CheckGang());
  RETURN_IF_ERROR(TakeTail(tail, figures));
  const double scale = 1 / std::max(1.0, static_cast<double>(tail[1]));
  if (size_controller_ != nullptr) {
    RETURN_IF_ERROR(size_controller_->Observe(plan.trained_parameters(),
                                              plan.gradients(), scale));
  }
  ASSIGN_OR_RETURN(
      figures->objective,
      objective_->Apply({figures->loss, EstimatedValidationLoss()},
                        progress_.stage, scale, plan.trained_parameters(),
                        plan.gradients()));
  ASSIGN_OR_RETURN(
      figures->gradient_norm,
      optimizer_->Step(progress_.own_step() + 1, figures->learning_rate_scale,
                       plan.parameters(), plan.gradients(),
                       plan.optimizer_state()));
  if (!std::isfinite(figures->gradient_norm)) {
    return NotFinite(figures->step, "gradient norm", figures->gradient_norm);
  }
  if (size_controller_ == nullptr) return absl::OkStatus();
  const Approach approach = MakeApproach(*figures);
  bool& on_size = figures->objective.on_size;
  on_size = on_size || size_controller_->Due(approach);
  return size_controller_->Step(on_size, approach, plan.parameters());
}

absl::Status Trainer::TakeTail(const float* tail, StepFigures* figures) {
  figures->loss = static_cast<double>(tail[0]) /
                  std::max(1.0, static_cast<double>(tail[1]));
  figures->stop = tail[3] > 0;
  if (figures->stop && stop_step_ < 0) stop_step_ = figures->step;
  if (!std::isfinite(figures->loss)) {
    return NotFinite(figures->step, "training loss", figures->loss);
  }
  progress_.loss.Add(figures->loss);
  return absl::OkStatus();
}

absl::Status Trainer::TakeStep() {
  StepFigures figures = pending_.front();
  pending_.pop_front();
  ASSIGN_OR_RETURN(const float* const numbers, late_numbers_->Take());
  RETURN_IF_ERROR(CheckGang());
  RETURN_IF_ERROR(TakeTail(numbers, &figures));
  const float* const squares = numbers + ModelPlan::kTailFloats;
  figures.gradient_norm = std::sqrt(static_cast<double>(*squares));
  if (!std::isfinite(figures.gradient_norm)) {
    return NotFinite(figures.step, "gradient norm", figures.gradient_norm);
  }
  figures.objective = objective_->StepOf(squares + 1);
  last_ = figures;
  return absl::OkStatus();
}

absl::Status Trainer::CatchUp() {
  while (!pending_.empty()) {
    RETURN_IF_ERROR(TakeStep());
    if (ReportDue()) ReportMetrics(/*validated=*/false);
  }
  return absl::OkStatus();
}

bool Trainer::ReportDue() const {
  return last_.step == first_step_ + 1 ||
         last_.step % options_.spec.training().report_every_steps() == 0;
}

}  // namespace comera::trainer
