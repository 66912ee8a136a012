#ifndef COMERA_WORKER_TRAINER_LOOP_TRAINER_OPTIONS_H_
#define COMERA_WORKER_TRAINER_LOOP_TRAINER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "common/clock.h"
#include "kernels/backend.h"
#include "kernels/machine_speed.h"
#include "worker/collective/communicator.h"
#include "worker/energy/energy_meter.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/planning/memory_check.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/process/event_writer.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/state/checkpoint.h"
#include "worker/trainer/state/checkpoint_name.h"

namespace comera::trainer {

// The options of a Trainer: the job, the machine, and where its results go.
struct TrainerOptions {
  // Valid (job_validation) and with its defaults filled in (job_defaults).
  v1::JobSpec spec;
  // The attempt of the job that runs; part of its checkpoints' names.
  int64_t attempt = 0;
  // Continue from a checkpoint: from `start` if set, else from the newest good
  // one, if there is one.
  bool resume = false;
  // With `resume`: the training state to start from, and no other.
  std::optional<StateKey> start;

  // Reads the checkpoint that spec.start_from names (checkpoint.h), on member 0
  // only. It is used where the job has no checkpoint of its own. Empty: there
  // is none.
  std::function<absl::StatusOr<std::string>()> read_start;
  // Keeps the checkpoint of the end of the early stage, on member 0 of a job
  // with early.only. Empty: it is not kept.
  std::function<absl::Status(const std::string& contents)> export_early_stage;

  // The speed of this machine (calibration.h). Member 0's holds for the whole
  // gang, and for runs that resume this one: the planner's choice changes
  // rounding.
  kernels::MachineSpeed machine;
  // Whether that was measured rather than assumed.
  bool machine_is_measured = false;

  // Whether steps no larger than one before run on a sealed backend, where an
  // allocation is an error: in debug builds.
#ifdef NDEBUG
  bool seal_steps = false;
#else
  bool seal_steps = true;
#endif

  // Whether the whole job is compared with the backend's free memory before any
  // is taken. Where the system can swap, that would refuse what works.
  bool check_memory = false;
  // Told once, before any is taken, what the phase that needs most will hold on
  // the backend. Empty: nobody is told, and nothing is counted for it.
  std::function<absl::Status(const MemoryNeed&)> on_memory_need;
  // Whether metrics say how much of the backend's memory was taken since
  // Create, where that is not the host's, which they give anyway.
  bool report_device_memory = false;

  // Whether steps are captured and replayed (step_runner.h) on a backend that
  // can; their batches are then padded to few shapes
  // (model/plan/batch_padding.h).
  bool graphs = true;

  // The least floats of a bucket of gradients that a gang sums while the rest
  // of the backward pass is computed (Model::GradientBuckets). All members must
  // have the same. Smaller gradients are not worth a second sum, whose latency
  // and launches come on top.
  int64_t bucket_floats = int64_t{8} << 20;

  // All pointers must outlive the trainer.
  kernels::Backend* backend = nullptr;
  // The name of the device that the backend computes on, for reports.
  std::string device;
  const TrainingData* data = nullptr;
  // Null: this member is the whole gang.
  collective::Communicator* communicator = nullptr;
  // Counts the energy of this member's share of the machines. Null: unknown.
  energy::EnergyMeter* energy = nullptr;
  // Where checkpoints lie, on member 0 only. Null: none are written.
  std::unique_ptr<CheckpointFiles> checkpoint_files;
  // Steps between two snapshots, which are saved as far as they cost less than
  // a twentieth of the time; 0: none.
  int64_t snapshot_every_steps = 0;

  // Receives every event but heartbeats, on member 0 only.
  EventSink events = [](const v1::TrainerEvent&) {};
  // Receives lines for the log, e.g. about a damaged checkpoint.
  std::function<void(const std::string&)> log = [](const std::string&) {};
  // Where the heartbeat reads what this member does; may be null.
  Activity* activity = nullptr;
  // Writes the final model, compacted, before the result is reported. Called on
  // member 0 only. Empty: nothing is exported.
  std::function<absl::Status(const ModelConfig& config,
                             const std::vector<float>& parameters,
                             const v1::TrainingResult& result)>
      export_model;
  // Writes the model that came nearest to a target of a list, as soon as its
  // approach has ended, and again after a resume. `target` counts from 0.
  std::function<absl::Status(int target, const ModelConfig& config,
                             const std::vector<float>& parameters,
                             const v1::TrainingResult& result)>
      export_target;

  // Whether a stop is to leave the best model so far, with a result that has no
  // outcome; asked on member 0 only. Empty: no.
  std::function<bool()> finish_asked;
  // Writes that model. Empty: nothing is exported.
  std::function<absl::Status(const ModelConfig& config,
                             const std::vector<float>& parameters,
                             const v1::TrainingResult& result)>
      export_best;

  ModelFactory model_factory = CreateModel;
  Clock* clock = Clock::Real();

  // This member's number in the gang, and the gang's size.
  int member() const;
  int world_size() const;
  // How many samples each validation runs on.
  int64_t ValidationSamples() const;
  // Lets the heartbeat say what this member does.
  void Describe(const std::string& activity_text) const;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_TRAINER_OPTIONS_H_
