// Trains both stages and compares losses, sizes and decisions with the
// published run.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/golden/device_memory.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/model_checks.h"
#include "tests/golden/reference_batch.h"
#include "tests/golden/reference_model.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/adamw.h"

namespace comera::golden {
namespace {

constexpr int64_t kComparedLosses = 30;
constexpr double kLossTolerance = 1e-3;
// Late decisions that must have been compared, of all and of either outcome.
constexpr size_t kLeastDecisions = 50;
constexpr size_t kLeastOfEachKind = 10;
// Decisions of our own run that must have been comparable with the recorded.
constexpr size_t kLeastOwnDecisions = 3;

// What training recorded per step.
struct Trajectory {
  std::vector<double> loss, rank_loss, size;
  std::vector<bool> on_size;
};

struct Plan {
  int64_t early_steps = 0;
  int64_t steps = 0;
  trainer::ObjectiveOptions objective;
  trainer::AdamWOptions optimizer;
};

absl::StatusOr<Plan> ReadPlan(const Safetensors& file, float threshold) {
  Plan plan;
  ASSIGN_OR_RETURN(const double early, MetadataNumber(file, "early_steps"));
  ASSIGN_OR_RETURN(const double late, MetadataNumber(file, "late_steps"));
  if (!(early >= 1 && early < 1e6 && late >= 0 && late < 1e6)) {
    return absl::DataLossError("metadata early_steps, late_steps");
  }
  plan.early_steps = static_cast<int64_t>(early);
  plan.steps = plan.early_steps + static_cast<int64_t>(late);
  ASSIGN_OR_RETURN(plan.objective.target_loss, MetadataNumber(file, "L0"));
  ASSIGN_OR_RETURN(plan.objective.target_size, MetadataNumber(file, "S0"));
  plan.objective.rank_threshold = threshold;
  trainer::AdamWOptions& optimizer = plan.optimizer;
  ASSIGN_OR_RETURN(optimizer.learning_rate_cores,
                   MetadataNumber(file, "lr_tt_cores_in_encoder"));
  ASSIGN_OR_RETURN(optimizer.learning_rate_ranks,
                   MetadataNumber(file, "lr_rank_in_encoder"));
  ASSIGN_OR_RETURN(optimizer.learning_rate_other,
                   MetadataNumber(file, "lr_other"));
  optimizer.group_head = false;
  optimizer.clip_norm = 0;
  return plan;
}

absl::StatusOr<Trajectory> Train(const Safetensors& file, const Plan& plan,
                                 const trainer::ModelConfig& config,
                                 kernels::Backend* backend) {
  ASSIGN_OR_RETURN(trainer::Batch batch, ReferenceBatch(file, 0, plan.steps));
  ASSIGN_OR_RETURN(const auto model,
                   trainer::CreateModel(config, batch.size, backend));
  const trainer::ParameterLayout& layout = model->layout();
  ASSIGN_OR_RETURN(const std::vector<float> initial,
                   ReferenceValues(file, "init.", layout));
  const int64_t size = layout.size();
  DeviceMemory memory(backend);
  ASSIGN_OR_RETURN(float* const parameters, memory.Floats(initial));
  ASSIGN_OR_RETURN(float* const gradients, memory.Zeros(size));
  ASSIGN_OR_RETURN(float* const first, memory.Zeros(size));
  ASSIGN_OR_RETURN(float* const second, memory.Zeros(size));
  ASSIGN_OR_RETURN(const kernels::StepState* const state, memory.State());
  ASSIGN_OR_RETURN(const auto objective,
                   trainer::CreateObjective(
                       v1::ObjectiveSpec::REFERENCE, plan.objective,
                       ReferenceSizeLayers(layout, model->tensorised_layers()),
                       layout, backend));
  ASSIGN_OR_RETURN(const auto optimizer,
                   trainer::AdamW::Create(plan.optimizer, layout, backend));
  Trajectory result;
  for (int64_t i = 0; i < plan.steps; ++i) {
    ASSIGN_OR_RETURN(batch, ReferenceBatch(file, i, plan.steps));
    RETURN_IF_ERROR(backend->Fill({gradients, size}, 0));
    RETURN_IF_ERROR(model->Forward(batch, parameters, true, state));
    RETURN_IF_ERROR(model->Backward(parameters, gradients));
    ASSIGN_OR_RETURN(const trainer::LossTotals totals, model->ReadLoss());
    const double loss = totals.loss_sum / totals.labels;
    ASSIGN_OR_RETURN(
        const trainer::ObjectiveStep step,
        objective->Apply(
            {loss, loss}, i < plan.early_steps ? v1::EARLY : v1::LATE,
            1 / totals.labels, {parameters, size}, {gradients, size}));
    result.loss.push_back(loss);
    result.rank_loss.push_back(step.mean_alive_entry);
    result.size.push_back(step.size);
    result.on_size.push_back(step.on_size);
    RETURN_IF_ERROR(optimizer
                        ->Step(i + 1, 1, {parameters, size}, {gradients, size},
                               {{first, size}, {second, size}, {}})
                        .status());
  }
  return result;
}

void CompareFirst(const std::string& name, const std::vector<double>& actual,
                  const std::vector<float>& reference, Report* report) {
  double worst = 0;
  const size_t count = std::min<size_t>(kComparedLosses, reference.size());
  for (size_t i = 0; i < count; ++i) {
    const double error =
        std::fabs(actual[i] - reference[i]) / std::fabs(reference[i]);
    if (!(error <= worst)) worst = error;
  }
  report->Check(absl::StrCat(name, "[0:", count, "]"), worst <= kLossTolerance,
                absl::StrCat("largest relative error ", worst));
}

// The late stage of the recorded run, from its own first step: a decision is a
// function of loss and size, which the file has for every step. They are put
// before the engine's objective as the loss and as a layer of that size.
absl::Status CompareRecordedDecisions(const Plan& plan,
                                      const std::vector<float>& loss,
                                      const std::vector<int64_t>& size,
                                      const std::vector<float>& lambda,
                                      kernels::Backend* backend,
                                      Report* report) {
  // The modes are 2 and 2, so that a rank r is worth 4 r parameters.
  constexpr int64_t kMode = 2;
  const int64_t most =
      *std::max_element(size.begin(), size.end()) / (2 * kMode);
  trainer::ParameterLayout layout;
  trainer::TensorisedLayer layer;
  layer.name = "layer";
  layer.layer_class = "attention";
  layer.modes = {kMode, kMode};
  layer.ranks = {1, most, 1};
  using Kind = trainer::ParameterKind;
  layer.cores = {
      layout.Add("layer.core.0", {1, kMode, most}, Kind::kCore, false),
      layout.Add("layer.core.1", {most, kMode, 1}, Kind::kCore, false)};
  layer.bonds = {layout.Add("layer.rank.0", {most}, Kind::kRank, false)};
  ASSIGN_OR_RETURN(
      const auto objective,
      trainer::CreateObjective(v1::ObjectiveSpec::REFERENCE, plan.objective,
                               {layer}, layout, backend));
  DeviceMemory memory(backend);
  ASSIGN_OR_RETURN(float* const parameters, memory.Zeros(layout.size()));
  ASSIGN_OR_RETURN(float* const gradients, memory.Zeros(layout.size()));
  const trainer::Parameter& bond = layout[layer.bonds[0]];
  size_t on_size = 0, on_loss = 0, different = 0;
  for (size_t i = plan.early_steps; i < loss.size(); ++i) {
    if (size[i] % (2 * kMode) != 0) continue;
    RETURN_IF_ERROR(
        backend->Fill({parameters + bond.offset, bond.size}, 0));
    RETURN_IF_ERROR(backend->Fill(
        {parameters + bond.offset, size[i] / (2 * kMode)}, 1));
    ASSIGN_OR_RETURN(
        const trainer::ObjectiveStep step,
        objective->Apply({loss[i], loss[i]}, v1::LATE, 1,
                         {parameters, layout.size()},
                         {gradients, layout.size()}));
    if (step.size != static_cast<double>(size[i])) {
      return absl::InternalError("a layer of another size than recorded");
    }
    ++(step.on_size ? on_size : on_loss);
    different += step.on_size != (lambda[i] > 0.5);
  }
  report->Check("late decisions on recorded losses and sizes",
                different == 0 && on_size + on_loss >= kLeastDecisions &&
                    std::min(on_size, on_loss) >= kLeastOfEachKind,
                absl::StrCat(on_size + on_loss, " compared (at least ",
                             kLeastDecisions, "), ", on_size, " on the size, ",
                             on_loss, " on the loss, ", different, " differ"));
  return absl::OkStatus();
}

// The runs may diverge before the late stage begins. A branch is a function of
// loss and size, so wherever the sizes are equal and the losses are nearer to
// each other than to the point where the branch changes, it must be the same.
void CompareDecisions(const Plan& plan, const Trajectory& ours,
                      const std::vector<float>& loss,
                      const std::vector<int64_t>& size,
                      const std::vector<float>& lambda, Report* report) {
  const double l0 = plan.objective.target_loss;
  const double s0 = plan.objective.target_size;
  size_t compared = 0, different = 0;
  for (size_t i = plan.early_steps; i < loss.size(); ++i) {
    if (size[i] <= 0 || ours.size[i] != static_cast<double>(size[i])) continue;
    // The point where (L - L0) / L = (S - S0) / S.
    const double change = l0 * static_cast<double>(size[i]) / s0;
    if (!(std::fabs(loss[i] - change) >
          2 * std::fabs(ours.loss[i] - loss[i]) + 1e-6)) {
      continue;
    }
    ++compared;
    different += ours.on_size[i] != (lambda[i] > 0.5);
  }
  report->Check("late decisions of our own run at equal sizes",
                different == 0 && compared >= kLeastOwnDecisions,
                absl::StrCat(compared, " compared (at least ",
                             kLeastOwnDecisions, "), ", different, " differ"));
}

}  // namespace

absl::Status CheckTrajectory(const Safetensors& file, kernels::Backend* backend,
                             Report* report) {
  ASSIGN_OR_RETURN(const trainer::ModelConfig config,
                   ReferenceConfig(file, "init."));
  ASSIGN_OR_RETURN(const Plan plan, ReadPlan(file, config.rank_threshold));
  ASSIGN_OR_RETURN(const auto loss, file.GetFloat("loss"));
  ASSIGN_OR_RETURN(const auto rank_loss, file.GetFloat("rank_loss"));
  ASSIGN_OR_RETURN(const auto size, file.GetInt64("size"));
  ASSIGN_OR_RETURN(const auto lambda, file.GetFloat("lambda"));
  const size_t steps = static_cast<size_t>(plan.steps);
  if (loss.size() != steps || rank_loss.size() != steps ||
      size.size() != steps || lambda.size() != steps) {
    return absl::DataLossError("loss, rank_loss, size, lambda do not fit");
  }
  ASSIGN_OR_RETURN(const Trajectory ours, Train(file, plan, config, backend));

  CompareFirst("loss", ours.loss, loss, report);
  CompareFirst("rank_loss", ours.rank_loss, rank_loss, report);
  size_t agree = 0;
  while (agree < steps &&
         std::fabs(ours.loss[agree] - loss[agree]) <= kLossTolerance) {
    ++agree;
  }
  report->Note(absl::StrCat("losses within ", kLossTolerance, " for ", agree,
                            " of ", steps, " steps"));
  RETURN_IF_ERROR(CompareRecordedDecisions(plan, loss, size, lambda, backend,
                                           report));
  CompareDecisions(plan, ours, loss, size, lambda, report);
  const size_t late =
      std::min(static_cast<size_t>(plan.early_steps), steps - 1);
  report->Check(absl::StrCat("size at step ", late),
                ours.size[late] == static_cast<double>(size[late]),
                absl::StrCat(ours.size[late], ", reference ", size[late]));
  return absl::OkStatus();
}

}  // namespace comera::golden
