// Computes the numbers of a step: gradients, their sum over the gang, the
// update.
#include "worker/trainer/loop/step_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/optimizer/learning_rate.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/step/layerwise_update.h"

namespace comera::trainer {
namespace {

// The floats of Model::totals: the sums over losses, labels and correct
// predictions, which the tail begins with.
constexpr int64_t kTotals = 3;

// The tokens of a batch, without padding; clicks have none.
int64_t CountTokens(const Batch& batch) {
  return std::count(batch.mask.begin(), batch.mask.end(), 1.0f);
}

}  // namespace

StepEngine::StepEngine(const TrainerOptions* options,
                       const TrainingSchedule* schedule, TrainedModel* model,
                       TrainingProgress* progress, StepReporter* reporter,
                       std::function<void(const StepFigures&)> on_figures)
    : options_(*options),
      schedule_(*schedule),
      model_(*model),
      progress_(*progress),
      on_figures_(std::move(on_figures)),
      gradient_sum_(options->communicator, options->backend,
                    options->spec.training().compress_gradients()),
      watch_(options, schedule, progress, reporter),
      arena_(options->backend),
      runner_(
          options->backend, options->graphs,
          [this](const std::string& line) { options_.log(line); },
          PartsOfBatch(options->spec)) {}

absl::Status StepEngine::Allocate() {
  device_step_ = arena_.Reserve("step state", sizeof(DeviceStep));
  squares_ = arena_.Reserve("squares of the gradient", sizeof(float));
  return arena_.Commit();
}

absl::Status StepEngine::Rebind() {
  warm_tokens_ = warm_labels_ = 0;
  runner_.Forget();
  RETURN_IF_ERROR(model_.Bind(progress_));
  ModelPlan& plan = *model_.plan();
  buckets_ = gradient_sum_.overlaps()
                 ? plan.model().GradientBuckets(options_.bucket_floats)
                 : std::vector<ParameterRange>{{0, plan.gradients().size}};
  readback_.reset();
  const Objective& objective = *model_.objective();
  const Optimizer& optimizer = *model_.optimizer();
  if (!objective.on_device(progress_.stage) || !optimizer.on_device()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(readback_,
                   StepReadback::Create({{tail(), ModelPlan::kTailFloats},
                                         {optimizer.squares(), 1},
                                         objective.norms()},
                                        options_.backend));
  return absl::OkStatus();
}

absl::Status StepEngine::PlanFor(const TrainingPhase& phase) {
  if (model_.PlannedFor(phase)) return absl::OkStatus();
  RETURN_IF_ERROR(CatchUp());
  RETURN_IF_ERROR(model_.Reshape(phase));
  return Rebind();
}

absl::Status StepEngine::Step(bool stop) {
  const int64_t own_step = progress_.own_step();
  const TrainingPhase& phase = schedule_.phases().At(own_step);
  if (&phase != stepped_phase_ || progress_.stage != stepped_stage_) {
    // It may take many times as long as those before it.
    options_.Describe("the first step of its kind");
  }
  stepped_phase_ = &phase;
  stepped_stage_ = progress_.stage;
  RETURN_IF_ERROR(PlanFor(phase));
  RETURN_IF_ERROR(ReadBatches(phase));
  const bool seal = IsWarm() && options_.seal_steps;
  if (seal) options_.backend->Seal();
  absl::Status status = RunStep(stop);
  if (seal) status.Update(options_.backend->Unseal());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(std::exchange(left_, absl::OkStatus()));
  // The step before is done by now.
  while (pending_.size() > 1) {
    RETURN_IF_ERROR(ReadStep());
    if (on_figures_) on_figures_(last_);
  }
  return absl::OkStatus();
}

absl::Status StepEngine::ReadBatches(const TrainingPhase& phase) {
  // A part is what a member of a gang so many times as large would have.
  const auto parts = static_cast<int>(PartsOfBatch(options_.spec));
  batches_.resize(parts);
  for (int part = 0; part < parts; ++part) {
    RETURN_IF_ERROR(options_.data->TrainBatch(
        progress_.own_step(), phase.batch_size,
        options_.member() * parts + part, options_.world_size() * parts,
        &batches_[part]));
    batches_[part].global_size = phase.batch_size;
  }
  return absl::OkStatus();
}

bool StepEngine::IsWarm() {
  int64_t tokens = 0, labels = 0;
  for (const Batch& batch : batches_) {
    tokens = std::max(tokens, CountTokens(batch));
    labels = std::max(labels, static_cast<int64_t>(batch.labels.size()));
  }
  const bool warm = tokens <= warm_tokens_ && labels <= warm_labels_;
  warm_tokens_ = std::max(warm_tokens_, tokens);
  warm_labels_ = std::max(warm_labels_, labels);
  return warm;
}

absl::Status StepEngine::RunStep(bool stop) {
  StepFigures figures;
  figures.step = progress_.step + 1;
  figures.stage = progress_.stage;
  figures.learning_rate_scale =
      progress_.stability.rate_factor *
      LearningRateScale(options_.spec.optimizer(), schedule_.LastOwnStep(),
                        progress_.own_step());
  RETURN_IF_ERROR(SetDeviceStep(stop, figures));
  if (model_.plan()->config().gradients_by_block) {
    RETURN_IF_ERROR(StepLayerwise(stop, &figures));
    last_ = figures;
    progress_.step = figures.step;
    return absl::OkStatus();
  }
  // One graph holds all where there is nothing to sum or to decide in between.
  // A gang sums between graphs: NCCL wants a captured sum captured and replayed
  // by all members alike, and whether a member replays depends on the shape of
  // its own batch.
  const bool update = readback_ != nullptr && options_.world_size() == 1 &&
                      batches_.size() == 1 && !watch_.on();
  const absl::Status parts = RunParts(update);
  // The other members will not get what they wait for.
  if (!parts.ok() && options_.communicator != nullptr) {
    options_.communicator->Abort();
  }
  // Nobody else may use the communicator until Finish has returned.
  const absl::Status summed = gradient_sum_.Finish();
  RETURN_IF_ERROR(parts);
  RETURN_IF_ERROR(summed);
  if (watch_.on()) {
    ASSIGN_OR_RETURN(const bool left_out, LeaveOutSpike(&figures));
    if (left_out) return absl::OkStatus();
  }
  if (readback_ == nullptr) {
    RETURN_IF_ERROR(UpdateFromHost(&figures));
    last_ = figures;
  } else {
    // The operations are the same for all batches.
    if (!update) {
      RETURN_IF_ERROR(
          runner_.Run({}, [this] { return EnqueueUpdate(); }).status());
    }
    RETURN_IF_ERROR(readback_->Enqueue());
    pending_.push_back(figures);
  }
  progress_.step = figures.step;
  return absl::OkStatus();
}

absl::Status StepEngine::RunParts(bool update) {
  ModelPlan& plan = *model_.plan();
  Model& model = plan.model();
  // What comes once is in no graph if there are several parts, so that those of
  // one shape share theirs.
  const bool one = batches_.size() == 1;
  if (!one) RETURN_IF_ERROR(EnqueueStart());
  for (const Batch& batch : batches_) {
    RETURN_IF_ERROR(model.SetBatch(batch, /*train=*/true, device_state()));
    shape_.clear();
    model.AppendShape(&shape_);
    if (&batch != &batches_.back()) {
      RETURN_IF_ERROR(
          runner_.Run(shape_, [this] { return EnqueueGradients(); }).status());
      continue;
    }
    // The last part's pieces have graphs of their own.
    if (buckets_.size() > 1) shape_.push_back(-1);
    const auto enqueue = [&](int piece) -> absl::Status {
      if (piece == 0) {
        if (one) RETURN_IF_ERROR(EnqueueStart());
        RETURN_IF_ERROR(model.Forward(plan.parameters().data));
      }
      RETURN_IF_ERROR(EnqueueBucket(buckets_[piece]));
      const bool last = piece + 1 == static_cast<int>(buckets_.size());
      return update && last ? EnqueueUpdate() : absl::OkStatus();
    };
    RETURN_IF_ERROR(
        runner_
            .RunPieces(shape_, static_cast<int>(buckets_.size()), enqueue,
                       [&](int piece) {
                         return gradient_sum_.Start(plan, buckets_[piece]);
                       })
            .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StepEngine::LeaveOutSpike(StepFigures* figures) {
  ModelPlan& plan = *model_.plan();
  RETURN_IF_ERROR(options_.backend->SumOfSquares(plan.gradients(),
                                                 arena_.Floats(squares_)));
  // The host waits for this step anyway, and the one before comes first.
  RETURN_IF_ERROR(CatchUp());
  float tail[ModelPlan::kTailFloats], squares = 0;
  RETURN_IF_ERROR(
      options_.backend->CopyToHost(tail, this->tail(), sizeof(tail)));
  RETURN_IF_ERROR(options_.backend->CopyToHost(
      &squares, arena_.Floats(squares_), sizeof(squares)));
  RETURN_IF_ERROR(gradient_sum_.Check());
  figures->gradient_norm = std::sqrt(static_cast<double>(squares)) /
                           std::max(1.0, static_cast<double>(tail[1]));
  const absl::StatusOr<bool> spike = watch_.Judge(figures->gradient_norm);
  if (spike.ok() && !*spike) return false;
  RETURN_IF_ERROR(ReadTail(tail, figures));
  ASSIGN_OR_RETURN(figures->objective,
                   model_.objective()->Measure(plan.parameters()));
  figures->left_out = true;
  // Data and schedule go on behind it even if it is one too many.
  progress_.step = figures->step;
  RETURN_IF_ERROR(spike.status());
  if (readback_ == nullptr) {
    last_ = *figures;
  } else {
    pending_.push_back(*figures);
  }
  return true;
}

absl::Status StepEngine::StepLayerwise(bool stop, StepFigures* figures) {
  ModelPlan& plan = *model_.plan();
  Model& model = plan.model();
  RETURN_IF_ERROR(model.SetBatch(batches_[0], /*train=*/true, device_state()));
  RETURN_IF_ERROR(model.Forward(plan.parameters().data));
  // The host waits here: updates need the number of labels, and a loss that is
  // not finite must end the step before any of them.
  ASSIGN_OR_RETURN(const LossTotals totals, model.ReadLoss());
  const float tail[ModelPlan::kTailFloats] = {
      static_cast<float>(totals.loss_sum), static_cast<float>(totals.labels),
      static_cast<float>(totals.correct), stop ? 1.0f : 0.0f,
      static_cast<float>(CountTokens(batches_[0]))};
  RETURN_IF_ERROR(ReadTail(tail, figures));
  // In the early stage of a model without cores, an objective makes the sum of
  // the losses their mean and adds nothing.
  ASSIGN_OR_RETURN(figures->objective,
                   model_.objective()->Measure(plan.trained_parameters()));
  LayerwiseUpdate::Options options;
  options.step = progress_.own_step() + 1;
  options.learning_rate_scale = figures->learning_rate_scale;
  options.gradient_scale = 1 / std::max(1.0, totals.labels);
  LayerwiseUpdate update(options, &plan, model_.optimizer(), options_.backend);
  ASSIGN_OR_RETURN(figures->gradient_norm, update.Run());
  if (std::isfinite(figures->gradient_norm)) return absl::OkStatus();
  // Some blocks are already those of the next step. Nobody uses them: after a
  // NAN_LOSS either DivergenceGuard restores a whole earlier state, or the
  // attempt ends without a checkpoint and the next begins from the last one.
  return NotFinite(figures->step, "gradient norm", figures->gradient_norm);
}

absl::Status StepEngine::SetDeviceStep(bool stop, const StepFigures& figures) {
  const int64_t own_step = progress_.own_step();
  DeviceStep device;
  device.state.seed = options_.spec.training().seed();
  device.state.step = static_cast<uint64_t>(own_step);
  device.tail_end[0] = stop ? 1 : 0;
  for (const Batch& batch : batches_) {
    device.tail_end[1] += static_cast<float>(CountTokens(batch));
  }
  model_.optimizer()->FillState(own_step + 1, figures.learning_rate_scale,
                                &device.state);
  return options_.backend->CopyToDevice(device_step(), &device, sizeof(device));
}

absl::Status StepEngine::EnqueueStart() {
  kernels::Backend& backend = *options_.backend;
  RETURN_IF_ERROR(backend.Fill(model_.plan()->reduced(), 0));
  static_assert(kTotals + sizeof(DeviceStep::tail_end) / sizeof(float) ==
                ModelPlan::kTailFloats);
  return backend.Copy(tail() + kTotals, device_step()->tail_end,
                      sizeof(DeviceStep::tail_end));
}

absl::Status StepEngine::EnqueueGradients() {
  ModelPlan& plan = *model_.plan();
  RETURN_IF_ERROR(plan.model().Forward(plan.parameters().data));
  return EnqueueBucket({0, plan.gradients().size});
}

absl::Status StepEngine::EnqueueBucket(const ParameterRange& bucket) {
  ModelPlan& plan = *model_.plan();
  Model& model = plan.model();
  RETURN_IF_ERROR(model.BackwardBucket(plan.parameters().data,
                                       plan.gradients().data, bucket));
  // The tail is summed with the first bucket, the one at the end.
  if (bucket.first + bucket.size < plan.gradients().size) {
    return absl::OkStatus();
  }
  return options_.backend->Axpy(1, {model.totals(), kTotals},
                                {tail(), kTotals});
}

absl::Status StepEngine::EnqueueUpdate() {
  ModelPlan& plan = *model_.plan();
  RETURN_IF_ERROR(model_.objective()->Enqueue(
      tail() + 1, plan.trained_parameters(), plan.gradients()));
  return model_.optimizer()->Enqueue(device_state(), plan.parameters(),
                                     plan.gradients(), plan.optimizer_state());
}

absl::Status StepEngine::UpdateFromHost(StepFigures* figures) {
  ModelPlan& plan = *model_.plan();
  SizeController* const size_controller = model_.size_controller();
  float tail[ModelPlan::kTailFloats];
  RETURN_IF_ERROR(
      options_.backend->CopyToHost(tail, this->tail(), sizeof(tail)));
  RETURN_IF_ERROR(gradient_sum_.Check());
  RETURN_IF_ERROR(ReadTail(tail, figures));
  const double scale = 1 / std::max(1.0, static_cast<double>(tail[1]));
  if (size_controller != nullptr) {
    RETURN_IF_ERROR(size_controller->Observe(plan.trained_parameters(),
                                             plan.gradients(), scale));
  }
  ASSIGN_OR_RETURN(
      figures->objective,
      model_.objective()->Apply(
          {figures->loss,
           schedule_.quality(progress_).EstimatedLevel(progress_)},
          progress_.stage, scale, plan.trained_parameters(), plan.gradients()));
  ASSIGN_OR_RETURN(
      figures->gradient_norm,
      model_.optimizer()->Step(progress_.own_step() + 1,
                               figures->learning_rate_scale, plan.parameters(),
                               plan.gradients(), plan.optimizer_state()));
  if (!std::isfinite(figures->gradient_norm)) {
    return NotFinite(figures->step, "gradient norm", figures->gradient_norm);
  }
  if (size_controller == nullptr) return absl::OkStatus();
  const Approach approach = MakeApproach(*figures);
  bool& on_size = figures->objective.on_size;
  on_size = on_size || size_controller->Due(approach);
  return size_controller->Step(on_size, approach, plan.parameters());
}

Approach StepEngine::MakeApproach(const StepFigures& figures) const {
  Approach approach;
  approach.size = figures.objective.size;
  approach.target_size = static_cast<double>(progress_.target_size);
  approach.step = schedule_.ApproachSteps(progress_);
  approach.max_steps = options_.spec.objective().late().max_steps();
  approach.rate = options_.spec.optimizer().learning_rate_ranks() *
                  figures.learning_rate_scale;
  return approach;
}

absl::Status StepEngine::ReadTail(const float* tail, StepFigures* figures) {
  figures->loss = static_cast<double>(tail[0]) /
                  std::max(1.0, static_cast<double>(tail[1]));
  figures->stop = tail[3] > 0;
  tokens_ += tail[4];
  figures->tokens = tokens_;
  if (figures->stop && stop_step_ < 0) stop_step_ = figures->step;
  if (!std::isfinite(figures->loss)) {
    return NotFinite(figures->step, "training loss", figures->loss);
  }
  progress_.loss.Add(figures->loss);
  schedule_.CountLabels(figures->step, tail[1], &progress_);
  return absl::OkStatus();
}

absl::Status StepEngine::ReadStep() {
  StepFigures figures = pending_.front();
  pending_.pop_front();
  if (figures.left_out) {
    last_ = figures;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const float* const numbers, readback_->Await());
  RETURN_IF_ERROR(gradient_sum_.Check());
  RETURN_IF_ERROR(ReadTail(numbers, &figures));
  const float* const squares = numbers + ModelPlan::kTailFloats;
  figures.gradient_norm = std::sqrt(static_cast<double>(*squares));
  if (!std::isfinite(figures.gradient_norm)) {
    return NotFinite(figures.step, "gradient norm", figures.gradient_norm);
  }
  figures.objective = model_.objective()->StepOf(squares + 1);
  last_ = figures;
  return absl::OkStatus();
}

absl::Status StepEngine::ReadAll() {
  RETURN_IF_ERROR(std::exchange(left_, absl::OkStatus()));
  while (!pending_.empty()) RETURN_IF_ERROR(ReadStep());
  return absl::OkStatus();
}

absl::Status StepEngine::CatchUp() {
  RETURN_IF_ERROR(std::exchange(left_, absl::OkStatus()));
  while (!pending_.empty()) {
    RETURN_IF_ERROR(ReadStep());
    if (on_figures_) on_figures_(last_);
  }
  return absl::OkStatus();
}

bool StepEngine::CatchUpAlone() {
  left_ = CatchUp();
  return left_.ok();
}

absl::Status StepEngine::Discard() {
  for (; !pending_.empty(); pending_.pop_front()) {
    if (pending_.front().left_out) continue;
    RETURN_IF_ERROR(readback_->Await().status());
  }
  return absl::OkStatus();
}

float* StepEngine::tail() const {
  ModelPlan& plan = *model_.plan();
  return plan.reduced().data + plan.gradients().size;
}

}  // namespace comera::trainer
