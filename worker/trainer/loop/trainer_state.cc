// How a trainer gets its state, and how it leaves it behind.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "proto/job_targets.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/loop/trainer.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/make_optimizer.h"
#include "worker/trainer/planning/memory_check.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/state/data_digest.h"

namespace comera::trainer {
namespace {

ObjectiveOptions MakeObjectiveOptions(const v1::JobSpec& spec,
                                      const v1::Target& target,
                                      const TrainingProgress& progress,
                                      const ParameterLayout& layout) {
  ObjectiveOptions options;
  options.gamma = spec.objective().early().gamma();
  options.beta = spec.objective().early().beta();
  options.w_loss = spec.objective().late().w_loss();
  options.w_size = spec.objective().late().w_size();
  options.target_loss = target.target_loss();
  options.target_size = static_cast<double>(progress.target_size);
  options.fixed_size = static_cast<double>(FixedSize(layout));
  options.initial_size = static_cast<double>(progress.initial_size);
  options.rank_threshold =
      static_cast<float>(spec.compression().rank_threshold());
  return options;
}

absl::Status CheckSize(const std::string& what,
                       const std::vector<float>& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) == size) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoint: a buffer of ", what,
                                          " holds ", buffer.size(),
                                          " numbers, for its ranks ", size));
}

}  // namespace

Trainer::Trainer(TrainerOptions options)
    : options_(std::move(options)),
      fingerprint_(SpecFingerprint(options_.spec)),
      targets_(TargetsOf(options_.spec.objective().late())),
      phases_(options_.spec),
      arena_(options_.backend),
      runner_(options_.backend, options_.graphs,
              [this](const std::string& line) { options_.log(line); }) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    TrainerOptions options) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  RETURN_IF_ERROR(trainer->Start());
  return trainer;
}

absl::Status Trainer::Start() {
  const v1::JobSpec& spec = options_.spec;
  for (const TrainingPhase& phase : phases_.phases()) {
    if (phase.batch_size > 0 && phase.batch_size % world_size() == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("training.batch_size: ", phase.batch_size,
                     " is not a multiple of ", world_size(), " ranks"));
  }
  if (options_.data->validation_samples() == 0) {
    return absl::DataLossError("there are no validation samples");
  }
  if (options_.checkpoint_files != nullptr) {
    checkpoints_ = std::make_unique<CheckpointStore>(
        std::move(options_.checkpoint_files), spec.checkpoint().keep());
  }
  const ClickShape* clicks = options_.data->clicks();
  ASSIGN_OR_RETURN(
      initial_config_,
      clicks != nullptr
          ? MakeModelConfig(spec, *clicks)
          : MakeModelConfig(spec, options_.data->vocabulary_size()));
  // DLRMs have no length, and no phases.
  if (spec.training().phases_size() > 0) {
    initial_config_.length = phases_.last().length;
  }
  rank_controller_ = std::make_unique<RankController>(
      spec.compression().compact_every_steps(), options_.model_factory,
      options_.backend);
  initial_config_.pad_batches =
      options_.graphs && options_.backend->has_graphs();
  if (options_.report_device_memory) {
    ASSIGN_OR_RETURN(free_at_start_, options_.backend->FreeBytes());
  }
  device_step_ = arena_.Reserve("step state", sizeof(DeviceStep));
  RETURN_IF_ERROR(arena_.Commit());

  TrainingState state;
  if (rank() == 0) {
    ASSIGN_OR_RETURN(data_digest_,
                     DataDigest(*options_.data, phases_.At(0).batch_size));
    ASSIGN_OR_RETURN(state, LoadOrInitialise());
  }
  RETURN_IF_ERROR(Share(state));
  return Adopt(std::move(state));
}

absl::StatusOr<std::unique_ptr<ModelPlan>> Trainer::MakePlan(
    ModelConfig config, const TrainingPhase& phase) const {
  if (phases_.phases().size() > 1) config.length = phase.length;
  return ModelPlan::Create(config, phase.batch_size / world_size(),
                           options_.model_factory, options_.backend);
}

absl::Status Trainer::CheckFree(const ModelConfig& config) const {
  if (!options_.check_memory) return absl::OkStatus();
  return CheckMemory(options_.spec, config, world_size(),
                     options_.model_factory, options_.backend);
}

absl::Status Trainer::PlanFor(const TrainingPhase& phase) {
  const int64_t share = phase.batch_size / world_size();
  if (phases_.phases().size() == 1 || (plan_->config().length == phase.length &&
                                       plan_->batch_size() == share)) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CatchUp());
  RETURN_IF_ERROR(plan_->Reshape(phase.length, share));
  if (size_controller_ != nullptr) control_ = size_controller_->control();
  return BindPlan();
}

absl::StatusOr<TrainingState> Trainer::LoadOrInitialise() {
  if (options_.resume && checkpoints_ != nullptr) {
    absl::StatusOr<std::optional<CheckpointStore::Loaded>> loaded =
        checkpoints_->LoadNewest(fingerprint_);
    if (absl::IsDataLoss(loaded.status())) {
      return WithFailureClass(loaded.status(), v1::CHECKPOINT_DAMAGED);
    }
    RETURN_IF_ERROR(loaded.status());
    if (loaded->has_value()) {
      TrainingState state = std::move((*loaded)->state);
      for (const std::string& line : (*loaded)->damaged) {
        options_.log(absl::StrCat("damaged checkpoint passed over: ", line));
        EmitIncident(
            v1::CHECKPOINT_DAMAGED,
            absl::StrCat("damaged checkpoint passed over: ", line,
                         "; going on from step ", state.progress.step));
      }
      RETURN_IF_ERROR(CheckData(state));
      return state;
    }
  }
  if (options_.read_start) return LoadStart();
  initial_config_.machine = options_.machine;
  RETURN_IF_ERROR(CheckFree(initial_config_));
  ASSIGN_OR_RETURN(plan_, MakePlan(initial_config_, phases_.At(0)));
  TrainingState state;
  state.fingerprint = fingerprint_;
  state.machine = options_.machine;
  state.ranks = MembersOf(initial_config_);
  state.parameters.resize(plan_->size());
  plan_->model().Initialise(options_.spec.training().seed(),
                            state.parameters.data());
  RETURN_IF_ERROR(WarmStart(state.parameters.data()));
  state.first_moment.resize(plan_->first_moment().size);
  state.second_moment.resize(plan_->second_moment().size);
  state.projectors.resize(plan_->projectors().size);
  state.progress.initial_size = CountedModelSize(
      plan_->model().layout(), plan_->model().tensorised_layers(),
      state.parameters.data(), initial_config_.rank_threshold);
  return state;
}

absl::StatusOr<TrainingState> Trainer::LoadStart() {
  const std::string& name = options_.spec.start_from().checkpoint();
  ASSIGN_OR_RETURN(std::string contents, options_.read_start());
  absl::StatusOr<TrainingState> state = ParseCheckpoint(std::move(contents));
  if (!state.ok()) {
    return WithFailureClass(
        absl::DataLossError(absl::StrCat(name, ": ", state.status().message())),
        v1::CHECKPOINT_DAMAGED);
  }
  if (state->fingerprint != EarlyStageFingerprint(options_.spec) ||
      state->progress.stage != v1::EARLY ||
      state->progress.step != options_.spec.objective().early().steps()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "start_from.checkpoint: ", name,
        " is of another early stage (model, data, compression, early stage, "
        "optimizer or training differ)"));
  }
  RETURN_IF_ERROR(CheckData(*state));
  state->fingerprint = fingerprint_;
  state->data_digest = data_digest_;
  return state;
}

absl::Status Trainer::CheckData(const TrainingState& state) const {
  if (state.data_digest.empty() || state.data_digest == data_digest_) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "data: the samples are not those that the checkpoint of step ",
      state.progress.step,
      " was trained on; bring the files back, or submit the job anew"));
}

absl::Status Trainer::WarmStart(float* parameters) {
  const std::string& path = options_.spec.initial_weights().safetensors();
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(InitialWeightsReport report,
                   LoadInitialWeights(path, initial_config_, parameters,
                                      [this](const std::string& what) {
                                        if (options_.activity == nullptr)
                                          return;
                                        options_.activity->Describe(what);
                                      }));
  for (const std::string& note : report.notes) {
    options_.log(absl::StrCat("initial weights: ", note));
  }
  for (const auto& [layer, error] : report.errors) {
    options_.log(absl::StrCat("initial weights: layer=", layer,
                              " relative_error=", error));
  }
  initial_errors_ = std::move(report.errors);
  return absl::OkStatus();
}

absl::Status Trainer::Share(TrainingState& state) {
  if (world_size() == 1) return absl::OkStatus();
  std::string bytes;
  if (rank() == 0) {
    // Only rank 0 exports, so only it needs the nearest model.
    std::optional<NearestModel> nearest;
    nearest.swap(state.nearest);
    ASSIGN_OR_RETURN(bytes, state.Serialize());
    nearest.swap(state.nearest);
  }
  int64_t size = static_cast<int64_t>(bytes.size());
  collective::Communicator& gang = *options_.communicator;
  RETURN_IF_ERROR(WithFailureClass(
      gang.Broadcast(
          absl::MakeSpan(reinterpret_cast<char*>(&size), sizeof(size)),
          /*root=*/0),
      v1::COLLECTIVE_HANG));
  bytes.resize(size);
  RETURN_IF_ERROR(WithFailureClass(
      gang.Broadcast(absl::MakeSpan(bytes.data(), bytes.size()), /*root=*/0),
      v1::COLLECTIVE_HANG));
  if (rank() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(state, TrainingState::Parse(bytes));
  if (state.fingerprint == fingerprint_) return absl::OkStatus();
  return absl::InternalError("rank 0 trains another specification");
}

absl::Status Trainer::Adopt(TrainingState state) {
  initial_config_.machine = state.machine;
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, state.ranks));
  // These are not uploaded before the end, where nothing checks them.
  if (state.nearest.has_value()) {
    RETURN_IF_ERROR(CheckFits(*state.nearest));
  }
  if (state.branch.has_value()) {
    RETURN_IF_ERROR(CheckFits(*state.branch));
  }
  const bool late = state.progress.stage == v1::LATE;
  const size_t ended = state.progress.outcomes.size();
  if ((late && !has_late_stage()) || (!late && ended > 0) ||
      (late && ended >= targets_.size()) ||
      (late && ended + 1 < targets_.size() && !state.branch.has_value()) ||
      state.control.has_value() != (late && is_pareto())) {
    return absl::DataLossError(
        "checkpoint: its stage and targets are not those of the job");
  }
  if (plan_ == nullptr) {
    RETURN_IF_ERROR(CheckFree(config));
    ASSIGN_OR_RETURN(plan_,
                     MakePlan(config, phases_.At(state.progress.own_step())));
  }
  RETURN_IF_ERROR(plan_->Upload(state.parameters, plan_->parameters()));
  RETURN_IF_ERROR(plan_->Upload(state.first_moment, plan_->first_moment()));
  RETURN_IF_ERROR(plan_->Upload(state.second_moment, plan_->second_moment()));
  RETURN_IF_ERROR(plan_->Upload(state.projectors, plan_->projectors()));
  progress_ = state.progress;
  nearest_ = std::move(state.nearest);
  branch_ = std::move(state.branch);
  control_ = std::move(state.control);
  first_step_ = reported_step_ = saved_step_ = progress_.step;
  return BindPlan();
}

absl::Status Trainer::CheckFits(const NearestModel& nearest) const {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, nearest.ranks));
  return CheckSize("the nearest model", nearest.parameters,
                   MakeModelLayout(config).parameters.size());
}

absl::Status Trainer::CheckFits(const BranchPoint& branch) const {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, branch.ranks));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  const std::string what = "the end of the early stage";
  RETURN_IF_ERROR(CheckSize(what, branch.parameters, layout.size()));
  RETURN_IF_ERROR(CheckSize(what, branch.first_moment, layout.moments_size()));
  RETURN_IF_ERROR(CheckSize(what, branch.second_moment, layout.moments_size()));
  return CheckSize(what, branch.projectors, layout.projectors_size());
}

absl::Status Trainer::Rebuild(const BranchPoint& branch) {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, branch.ranks));
  // First out with the old: both need not fit side by side.
  plan_.reset();
  ASSIGN_OR_RETURN(plan_, MakePlan(config, phases_.At(progress_.own_step())));
  RETURN_IF_ERROR(plan_->Upload(branch.parameters, plan_->parameters()));
  RETURN_IF_ERROR(plan_->Upload(branch.first_moment, plan_->first_moment()));
  RETURN_IF_ERROR(plan_->Upload(branch.second_moment, plan_->second_moment()));
  return plan_->Upload(branch.projectors, plan_->projectors());
}

absl::StatusOr<TrainingState> Trainer::Capture() {
  TrainingState state;
  state.fingerprint = fingerprint_;
  state.data_digest = data_digest_;
  state.progress = progress_;
  state.machine = initial_config_.machine;
  state.ranks = MembersOf(plan_->config());
  ASSIGN_OR_RETURN(state.parameters, plan_->Download(plan_->parameters()));
  ASSIGN_OR_RETURN(state.first_moment, plan_->Download(plan_->first_moment()));
  ASSIGN_OR_RETURN(state.second_moment,
                   plan_->Download(plan_->second_moment()));
  ASSIGN_OR_RETURN(state.projectors, plan_->Download(plan_->projectors()));
  state.nearest = nearest_;
  state.branch = branch_;
  if (size_controller_ != nullptr) state.control = size_controller_->control();
  return state;
}

absl::Status Trainer::BindPlan() {
  warm_tokens_ = warm_labels_ = 0;
  runner_.Forget();
  const Model& model = plan_->model();
  ASSIGN_OR_RETURN(
      objective_,
      CreateObjective(options_.spec.objective().kind(),
                      MakeObjectiveOptions(options_.spec, target(), progress_,
                                           model.layout()),
                      model.tensorised_layers(), model.layout(),
                      options_.backend));
  ASSIGN_OR_RETURN(optimizer_, MakeOptimizer(options_.spec, plan_->config(),
                                             model.layout(), options_.backend));
  late_numbers_.reset();
  if (objective_->on_device(progress_.stage) && optimizer_->on_device()) {
    ASSIGN_OR_RETURN(late_numbers_,
                     LateNumbers::Create({{tail(), ModelPlan::kTailFloats},
                                          {optimizer_->squares(), 1},
                                          objective_->norms()},
                                         options_.backend));
  }
  size_controller_.reset();
  if (!control_.has_value()) return absl::OkStatus();
  SizeController::Options options;
  options.rank_threshold =
      static_cast<float>(options_.spec.compression().rank_threshold());
  options.fixed_size = static_cast<double>(FixedSize(model.layout()));
  ASSIGN_OR_RETURN(
      size_controller_,
      SizeController::Create(options, model.tensorised_layers(), model.layout(),
                             *control_, options_.backend));
  return absl::OkStatus();
}

void Trainer::SaveCheckpoint() {
  if (rank() != 0 || checkpoints_ == nullptr) return;
  if (options_.activity != nullptr) {
    options_.activity->Describe("saving a checkpoint");
  }
  absl::StatusOr<TrainingState> state = Capture();
  absl::StatusOr<int64_t> bytes =
      state.ok() ? checkpoints_->Save(*state) : state.status();
  if (!bytes.ok()) {
    const std::string what =
        absl::StrCat("checkpoint at step ", progress_.step,
                     " not written: ", bytes.status().ToString());
    options_.log(what);
    // Once until it works again.
    if (!std::exchange(checkpoint_failed_, true)) {
      EmitIncident(absl::IsResourceExhausted(bytes.status()) ? v1::DISK_FULL
                                                             : v1::INTERNAL,
                   absl::StrCat(what, "; training goes on"));
    }
    return;
  }
  checkpoint_failed_ = false;
  saved_step_ = progress_.step;
  v1::TrainerEvent event;
  event.mutable_checkpoint()->set_step(progress_.step);
  event.mutable_checkpoint()->set_size_bytes(*bytes);
  Emit(std::move(event));
}

void Trainer::SaveSnapshot() {
  if (options_.activity != nullptr) {
    options_.activity->Describe("saving a snapshot");
  }
  absl::StatusOr<TrainingState> state = Capture();
  absl::StatusOr<int64_t> bytes =
      state.ok() ? checkpoints_->SaveSnapshot(*state) : state.status();
  saved_step_ = progress_.step;
  // The checkpoints will tell.
  if (!bytes.ok()) return;
  v1::TrainerEvent event;
  event.mutable_checkpoint()->set_step(progress_.step);
  event.mutable_checkpoint()->set_size_bytes(*bytes);
  event.mutable_checkpoint()->set_snapshot(true);
  Emit(std::move(event));
}

}  // namespace comera::trainer
