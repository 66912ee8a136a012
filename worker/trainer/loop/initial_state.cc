// Initialises the training state of a job, from its seed or a dense model.
#include "worker/trainer/loop/initial_state.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {
namespace {

// Puts the job's initial weights, if it has any, over `parameters`.
absl::Status WarmStart(const TrainerOptions& options, const ModelConfig& config,
                       float* parameters,
                       std::vector<InitialWeightsReport::LayerError>* errors) {
  const std::string& path = options.spec.initial_weights().safetensors();
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(InitialWeightsReport report,
                   LoadInitialWeights(path, config, parameters,
                                      [&](const std::string& what) {
                                        options.Describe(what);
                                      }));
  for (const std::string& note : report.notes) {
    options.log(absl::StrCat("initial weights: ", note));
  }
  for (const auto& [layer, error] : report.errors) {
    options.log(absl::StrCat("initial weights: layer=", layer,
                             " relative_error=", error));
  }
  *errors = std::move(report.errors);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingState> MakeInitialState(
    const TrainerOptions& options, const TrainingSchedule& schedule,
    TrainedModel* model,
    std::vector<InitialWeightsReport::LayerError>* errors) {
  model->set_machine(options.machine);
  const ModelConfig& config = model->initial_config();
  RETURN_IF_ERROR(model->Plan(config, schedule.phases().At(0)));
  ModelPlan& plan = *model->plan();
  TrainingState state;
  state.fingerprint = SpecFingerprint(options.spec);
  state.machine = options.machine;
  state.ranks = RanksOf(config);
  state.parameters.resize(plan.size());
  plan.model().Initialise(options.spec.training().seed(),
                          state.parameters.data());
  RETURN_IF_ERROR(WarmStart(options, config, state.parameters.data(), errors));
  state.first_moment.resize(plan.first_moment().size);
  state.second_moment.resize(plan.second_moment().size);
  state.projectors.resize(plan.projectors().size);
  state.progress.initial_size =
      CountedModelSize(plan.model().layout(), plan.model().tensorised_layers(),
                       state.parameters.data(), config.rank_threshold);
  return state;
}

}  // namespace comera::trainer
