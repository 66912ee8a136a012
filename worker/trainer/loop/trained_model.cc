// Plans the model in training, and binds its objective and optimiser.
#include "worker/trainer/loop/trained_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/late/canonical_form.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/make_optimizer.h"
#include "worker/trainer/planning/memory_check.h"
#include "worker/trainer/planning/phase_table.h"

namespace comera::trainer {
namespace {

bool IsAchievement(const v1::JobSpec& spec) {
  return spec.objective().late().mode() == v1::LateStage::ACHIEVEMENT;
}

ObjectiveOptions MakeObjectiveOptions(const v1::JobSpec& spec,
                                      const QualityTarget& quality,
                                      const TrainingProgress& progress,
                                      const ParameterLayout& layout) {
  ObjectiveOptions options;
  options.gamma = spec.objective().early().gamma();
  options.beta = spec.objective().early().beta();
  options.w_loss = spec.objective().late().w_loss();
  options.w_size = spec.objective().late().w_size();
  options.achievement = IsAchievement(spec);
  options.rho = spec.objective().late().rho();
  options.target_loss = quality.goal();
  options.target_size = static_cast<double>(progress.target_size);
  options.fixed_size = static_cast<double>(FixedSize(layout));
  options.initial_size = static_cast<double>(progress.initial_size);
  options.rank_threshold =
      static_cast<float>(spec.compression().rank_threshold());
  return options;
}

// Refuses what needs the gradients of all layers at once.
absl::Status CheckGradientsByBlock(const TrainerOptions& options) {
  const v1::TrainingSpec& training = options.spec.training();
  const char* const other =
      options.world_size() > 1         ? "is for one process"
      : PartsOfBatch(options.spec) > 1 ? "excludes training.accumulate"
      : training.spike_factor() > 0    ? "excludes training.spike_factor"
                                       : nullptr;
  if (other == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("compression.galore.per_layer: ", other));
}

absl::Status CheckSize(const std::string& what,
                       const std::vector<float>& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) == size) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoint: a buffer of ", what,
                                          " holds ", buffer.size(),
                                          " numbers, for its ranks ", size));
}

}  // namespace

absl::StatusOr<ModelConfig> TrainedModel::InitialConfig(
    const TrainerOptions& options, const TrainingSchedule& schedule) {
  const ClickShape* clicks = options.data->clicks();
  std::vector<int64_t> token_counts;
  if (options.spec.compression().embedding().dense_tokens() > 0) {
    token_counts = options.data->TokenCounts();
    if (static_cast<int64_t>(token_counts.size()) !=
        options.data->vocabulary_size()) {
      return absl::InternalError(
          "compression.embedding.dense_tokens: the data do not count tokens");
    }
  }
  ASSIGN_OR_RETURN(
      ModelConfig config,
      clicks != nullptr
          ? MakeModelConfig(options.spec, *clicks)
          : MakeModelConfig(options.spec, options.data->vocabulary_size(),
                            token_counts));
  if (config.gradients_by_block) {
    RETURN_IF_ERROR(CheckGradientsByBlock(options));
  }
  // DLRMs have no length, and no phases.
  if (options.spec.training().phases_size() > 0) {
    config.length = schedule.phases().last().length;
  }
  // Updates within the backward pass ask the host, so that nothing is captured.
  config.pad_batches = options.graphs && options.backend->has_graphs() &&
                       !config.gradients_by_block;
  return config;
}

TrainedModel::TrainedModel(const TrainerOptions* options,
                           const TrainingSchedule* schedule,
                           const ModelConfig& initial_config)
    : options_(*options),
      schedule_(*schedule),
      initial_config_(initial_config),
      rank_controller_(options->spec.compression().compact_every_steps(),
                       options->model_factory, options->backend) {}

absl::StatusOr<std::unique_ptr<ModelPlan>> TrainedModel::MakePlan(
    ModelConfig config, const TrainingPhase& phase) const {
  if (schedule_.phases().phases().size() > 1) config.length = phase.length;
  return ModelPlan::Create(config, PartSize(phase), options_.model_factory,
                           options_.backend);
}

absl::Status TrainedModel::Plan(const ModelConfig& config,
                                const TrainingPhase& phase) {
  if (options_.check_memory) {
    RETURN_IF_ERROR(CheckMemory(options_.spec, config, options_.world_size(),
                                options_.model_factory, options_.backend));
  }
  if (options_.on_memory_need && plan_ == nullptr) {
    const absl::StatusOr<MemoryNeed> need =
        LargestNeed(options_.spec, config, options_.world_size(),
                    options_.model_factory, options_.backend);
    // What is impossible, the plan itself will say.
    if (need.ok()) RETURN_IF_ERROR(options_.on_memory_need(*need));
  }
  ASSIGN_OR_RETURN(plan_, MakePlan(config, phase));
  return absl::OkStatus();
}

absl::Status TrainedModel::Load(const TrainingState& state,
                                const TrainingPhase& phase) {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, state.ranks));
  if (plan_ == nullptr) RETURN_IF_ERROR(Plan(config, phase));
  control_ = state.control;
  return Upload(state);
}

absl::Status TrainedModel::Restore(const ModelState& state,
                                   const TrainingPhase& phase) {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, state.ranks));
  // The old plan goes first: both need not fit side by side.
  plan_.reset();
  ASSIGN_OR_RETURN(plan_, MakePlan(config, phase));
  return Upload(state);
}

absl::Status TrainedModel::Bind(const TrainingProgress& progress) {
  const Model& model = plan_->model();
  ASSIGN_OR_RETURN(
      objective_,
      CreateObjective(
          options_.spec.objective().kind(),
          MakeObjectiveOptions(options_.spec, schedule_.quality(progress),
                               progress, model.layout()),
          model.tensorised_layers(), model.layout(), options_.backend));
  ASSIGN_OR_RETURN(optimizer_, MakeOptimizer(options_.spec, plan_->config(),
                                             model.layout(), options_.backend));
  size_controller_.reset();
  if (!control_.has_value()) return absl::OkStatus();
  SizeController::Options options;
  options.rank_threshold =
      static_cast<float>(options_.spec.compression().rank_threshold());
  options.fixed_size = static_cast<double>(FixedSize(model.layout()));
  options.attention_floor = std::max<int64_t>(1, plan_->config().heads);
  if (IsAchievement(options_.spec)) {
    options.scheduled = false;
    options.relaxed_weight = options_.spec.objective().late().rho() /
                             static_cast<double>(progress.initial_size);
  }
  ASSIGN_OR_RETURN(
      size_controller_,
      SizeController::Create(options, model.tensorised_layers(), model.layout(),
                             *control_, options_.backend));
  return absl::OkStatus();
}

bool TrainedModel::PlannedFor(const TrainingPhase& phase) const {
  return schedule_.phases().phases().size() == 1 ||
         (plan_->config().length == phase.length &&
          plan_->batch_size() == PartSize(phase));
}

absl::Status TrainedModel::Reshape(const TrainingPhase& phase) {
  RETURN_IF_ERROR(plan_->Reshape(phase.length, PartSize(phase)));
  if (size_controller_ != nullptr) control_ = size_controller_->control();
  return absl::OkStatus();
}

absl::StatusOr<bool> TrainedModel::Compact() {
  if (size_controller_ != nullptr) {
    ASSIGN_OR_RETURN(control_,
                     size_controller_->Compacted(plan_->parameters()));
  }
  return rank_controller_.Compact(&plan_);
}

absl::Status TrainedModel::Canonicalise() {
  ModelState state;
  RETURN_IF_ERROR(Download(&state));
  const Model& model = plan_->model();
  MakeCanonical(model.layout(), model.tensorised_layers(),
                state.parameters.data(), state.first_moment.data(),
                state.second_moment.data());
  return Upload(state);
}

void TrainedModel::BeginSizeControl(double start_size) {
  control_.reset();
  if (!schedule_.is_pareto()) return;
  control_.emplace();
  control_->start_size = start_size;
}

std::optional<SizeControl> TrainedModel::size_control() const {
  if (size_controller_ == nullptr) return std::nullopt;
  return size_controller_->control();
}

absl::Status TrainedModel::CheckFits(const std::string& what,
                                     const ModelState& state) const {
  ASSIGN_OR_RETURN(const ModelConfig config,
                   WithRanks(initial_config_, state.ranks));
  const ParameterLayout layout = MakeModelLayout(config).parameters;
  RETURN_IF_ERROR(CheckSize(what, state.parameters, layout.size()));
  RETURN_IF_ERROR(CheckSize(what, state.first_moment, layout.moments_size()));
  RETURN_IF_ERROR(CheckSize(what, state.second_moment, layout.moments_size()));
  return CheckSize(what, state.projectors, layout.projectors_size());
}

absl::Status TrainedModel::Download(ModelState* state) {
  state->ranks = RanksOf(plan_->config());
  ASSIGN_OR_RETURN(state->parameters, Parameters());
  ASSIGN_OR_RETURN(state->first_moment, plan_->Download(plan_->first_moment()));
  ASSIGN_OR_RETURN(state->second_moment,
                   plan_->Download(plan_->second_moment()));
  ASSIGN_OR_RETURN(state->projectors, plan_->Download(plan_->projectors()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> TrainedModel::Parameters() {
  return plan_->Download(plan_->parameters());
}

absl::Status TrainedModel::Upload(const ModelState& state) {
  RETURN_IF_ERROR(plan_->Upload(state.parameters, plan_->parameters()));
  RETURN_IF_ERROR(plan_->Upload(state.first_moment, plan_->first_moment()));
  RETURN_IF_ERROR(plan_->Upload(state.second_moment, plan_->second_moment()));
  return plan_->Upload(state.projectors, plan_->projectors());
}

}  // namespace comera::trainer
