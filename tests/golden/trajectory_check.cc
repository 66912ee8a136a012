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
  report->Check("late branches at equal sizes", different == 0,
                absl::StrCat(compared, " compared, ", different, " differ"));
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
  size_t branches = 0, different = 0, equal_in_all = 0;
  for (size_t i = plan.early_steps; i < steps; ++i) {
    const bool equal = ours.on_size[i] == (lambda[i] > 0.5);
    equal_in_all += equal;
    if (i >= agree) continue;
    ++branches;
    different += !equal;
  }
  report->Check("late branches", different == 0,
                absl::StrCat(branches, " compared, ", different,
                             " differ; losses agree for ", agree, " of ", steps,
                             " steps; of all late branches ", equal_in_all,
                             " are equal"));
  CompareDecisions(plan, ours, loss, size, lambda, report);
  const size_t late =
      std::min(static_cast<size_t>(plan.early_steps), steps - 1);
  report->Check(absl::StrCat("size at step ", late),
                ours.size[late] == static_cast<double>(size[late]),
                absl::StrCat(ours.size[late], ", reference ", size[late]));
  return absl::OkStatus();
}

}  // namespace comera::golden
