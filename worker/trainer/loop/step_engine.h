#ifndef COMERA_WORKER_TRAINER_LOOP_STEP_ENGINE_H_
#define COMERA_WORKER_TRAINER_LOOP_STEP_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/late/size_controller.h"
#include "worker/trainer/loop/spike_watch.h"
#include "worker/trainer/loop/step_reporter.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/model/plan/parameter_layout.h"
#include "worker/trainer/planning/phase_table.h"
#include "worker/trainer/state/training_state.h"
#include "worker/trainer/step/gradient_sum.h"
#include "worker/trainer/step/step_figures.h"
#include "worker/trainer/step/step_readback.h"
#include "worker/trainer/step/step_runner.h"

namespace comera::trainer {

// Does training steps: the gradients of a batch, their sum over the gang, the
// update, and the figures that they leave.
//
// With training.accumulate a member computes its share of the batch in parts,
// one after the other, whose gradients add up before the sum over the gang. A
// step is then that of the whole share up to rounding: samples, dropout and the
// number of labels that the loss is divided by are the same, while cores are
// contracted, and their gradients folded back, once for each part.
//
// Where the update asks nothing of the host the steps are only enqueued, and
// the figures of a step are read while the next one runs: then last() is one
// step behind the progress until ReadAll or CatchUp.
//
// Life cycle: Allocate, once; Rebind after every change that TrainedModel names
// and before the first step. Not thread-safe.
//
// Errors: those of the data, the backend and the communicator; NAN_LOSS names
// the step whose loss or gradient is not finite, DIVERGED the last of too many
// spikes (spike_watch.h).
class StepEngine {
 public:
  // `on_figures` is called by Step and CatchUp with the figures of every step
  // that they read behind it; it may be empty. Counts steps, losses, labels and
  // spikes in `progress`. The objects behind the pointers must outlive this.
  StepEngine(const TrainerOptions* options, const TrainingSchedule* schedule,
             TrainedModel* model, TrainingProgress* progress,
             StepReporter* reporter,
             std::function<void(const StepFigures&)> on_figures);

  absl::Status Allocate();
  // Binds the model (TrainedModel::Bind) and forgets the captured graphs.
  absl::Status Rebind();
  // Plans the model for steps of this phase, and catches up if that changes it.
  absl::Status PlanFor(const TrainingPhase& phase);

  // One step. `stop` asks the gang to stop after it.
  absl::Status Step(bool stop);
  // Reads the figures of all steps that were enqueued.
  absl::Status ReadAll();
  // The same, and gives them to `on_figures`.
  absl::Status CatchUp();
  // The same for one member alone, which must not fail before the others: if a
  // figure is an error, returns false and leaves the error to the next Step,
  // ReadAll or CatchUp, where all members meet it.
  bool CatchUpAlone();
  // Waits for all steps that were enqueued, and forgets their figures.
  absl::Status Discard();

  // Whether figures are read one step later.
  bool figures_are_deferred() const {
    return readback_ != nullptr && options_.backend->has_graphs();
  }
  // The figures of the last step that was read.
  const StepFigures& last() const { return last_; }
  // Corrects their size to what was measured since.
  void set_last_size(double size) { last_.objective.size = size; }
  // The first step that was read in which a member was asked to stop; -1: none.
  int64_t stop_step() const { return stop_step_; }
  const kernels::StepState* device_state() const {
    return &device_step()->state;
  }
  const StepRunner::Counters& graph_counters() const {
    return runner_.counters();
  }

 private:
  // The numbers that a step reads on the device.
  struct DeviceStep {
    kernels::StepState state;
    // The end of the tail: whether this member was asked to stop, and its
    // tokens.
    float tail_end[2] = {};
  };

  // Reads this member's share of the next step's batch into batches_.
  absl::Status ReadBatches(const TrainingPhase& phase);
  // Whether the next step needs no more memory than one before.
  bool IsWarm();
  // Enqueues the step on batches_, and finishes it if the host has a part in
  // it.
  absl::Status RunStep(bool stop);
  // Enqueues the gradients of all parts and, if `update`, the update; then
  // there is one part only. The sum of the gradients over the gang is under way
  // at the end.
  absl::Status RunParts(bool update);
  // Leaves the step out if its gradients, which are summed over the gang, are a
  // spike. False: it goes on.
  absl::StatusOr<bool> LeaveOutSpike(StepFigures* figures);
  // The rest of a step on the batch that the model was given, if its gradients
  // are in memory block by block.
  absl::Status StepLayerwise(bool stop, StepFigures* figures);
  // Copies to the device what this step has of its own.
  absl::Status SetDeviceStep(bool stop, const StepFigures& figures);
  // Makes the gradients 0, and their tail what does not come from the parts.
  absl::Status EnqueueStart();
  // Adds the gradients of the part that the model was given, with their tail.
  absl::Status EnqueueGradients();
  // The piece of EnqueueGradients, without Forward, that completes the
  // gradients of a bucket.
  absl::Status EnqueueBucket(const ParameterRange& bucket);
  // The update that asks nothing of the host.
  absl::Status EnqueueUpdate();
  // The update with the host in between.
  absl::Status UpdateFromHost(StepFigures* figures);
  // Reads the oldest step that was enqueued.
  absl::Status ReadStep();
  // Takes figures from the tail of the summed gradients.
  absl::Status ReadTail(const float* tail, StepFigures* figures);
  Approach MakeApproach(const StepFigures& figures) const;

  // The tail of the plan's gradients.
  float* tail() const;
  DeviceStep* device_step() const {
    return static_cast<DeviceStep*>(arena_.Address(device_step_));
  }

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  TrainedModel& model_;
  TrainingProgress& progress_;
  const std::function<void(const StepFigures&)> on_figures_;
  GradientSum gradient_sum_;
  SpikeWatch watch_;

  kernels::Arena arena_;
  kernels::Arena::Piece device_step_ = 0;
  // The square of the gradient's norm, for the watch.
  kernels::Arena::Piece squares_ = 0;
  // The parts of this member's share of a batch.
  std::vector<Batch> batches_;
  // The pieces in which the gradients of the last part are summed.
  std::vector<ParameterRange> buckets_;
  // Tokens of the gang in the steps that were read.
  double tokens_ = 0;
  // The error that CatchUpAlone left.
  absl::Status left_;
  // The size of the largest part that ran since the model was bound: what
  // operations need beside the plan was allocated then.
  int64_t warm_tokens_ = 0, warm_labels_ = 0;
  StepRunner runner_;
  StepRunner::Shape shape_;
  // Null where the host has a part in the update.
  std::unique_ptr<StepReadback> readback_;
  std::deque<StepFigures> pending_;  // enqueued, and not read
  StepFigures last_;
  int64_t stop_step_ = -1;
  // The kind of the last step.
  const TrainingPhase* stepped_phase_ = nullptr;
  v1::Stage stepped_stage_ = v1::STAGE_UNSPECIFIED;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_STEP_ENGINE_H_
