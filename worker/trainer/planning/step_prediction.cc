// Predicts the time of a step by running it on a counting backend.
#include "worker/trainer/planning/step_prediction.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/optimizer/galore.h"
#include "worker/trainer/planning/model_plan.h"

namespace comera::trainer {
namespace {

// Masked language models predict every seventh token or so (15%).
constexpr int64_t kLabelEvery = 7;

Batch SyntheticClickBatch(const ClickShape& clicks, int64_t size) {
  Batch batch;
  batch.size = size;
  batch.length = 1;
  batch.dense.assign(size * clicks.dense_features, 0.5f);
  for (int64_t rows : clicks.table_rows) {
    for (int64_t i = 0; i < size; ++i) {
      batch.categories.push_back(static_cast<int32_t>(i * 7919 % rows));
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    batch.labels.push_back(static_cast<int32_t>(i % 2));
  }
  return batch;
}

// A segment for each parameter with moments, where these lie.
std::vector<kernels::AdamWSegment> Segments(const ParameterLayout& layout) {
  std::vector<kernels::AdamWSegment> segments;
  for (const Parameter& p : layout.parameters()) {
    segments.push_back({p.moment_offset, p.moment_size, 1e-3f, 0,
                        p.table ? p.shape.back() : 0});
  }
  return segments;
}

// The optimiser's step. GaLore keeps its projectors, as in all steps but one of
// many hundred.
absl::Status Update(ModelPlan& plan, kernels::ConstVector gradients,
                    kernels::Backend* backend) {
  const ParameterLayout& layout = plan.model().layout();
  if (layout.projectors_size() > 0) {
    ASSIGN_OR_RETURN(const auto galore,
                     Galore::Create(GaloreOptions(), layout, backend));
    return galore
        ->Step(/*step=*/2, /*learning_rate_scale=*/1, plan.parameters(),
               gradients, plan.optimizer_state())
        .status();
  }
  float norm = 0;
  RETURN_IF_ERROR(backend->SumOfSquares(gradients, &norm));
  // AdamW where the moments are.
  const int64_t moments = layout.moments_size();
  return backend->AdamW({}, Segments(layout), {plan.parameters().data, moments},
                        {gradients.data, moments}, plan.first_moment(),
                        plan.second_moment());
}

void Repeat(int64_t times, kernels::OperationCosts::Entry* work) {
  const auto factor = static_cast<double>(times);
  work->calls *= times;
  work->multiply_adds *= factor;
  work->bytes *= factor;
  work->math *= factor;
  work->random *= factor;
  work->seconds *= factor;
  work->launches *= factor;
}

absl::Status Backward(ModelPlan& plan) {
  Model& model = plan.model();
  const float* parameters = plan.parameters().data;
  if (!plan.config().gradients_by_block) {
    return model.Backward(parameters, plan.gradients().data);
  }
  return model.BackwardByBlock(
      parameters, plan.gradients(),
      [](const ParameterRange&, kernels::Vector) { return absl::OkStatus(); });
}

}  // namespace

Batch SyntheticBatch(const ModelConfig& config, int64_t size) {
  if (config.family == v1::ModelSpec::DLRM) {
    return SyntheticClickBatch(config.clicks, size);
  }
  Batch batch;
  batch.size = size;
  batch.length = config.length;
  const bool classifies = config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
  // A decoder predicts the token after each.
  const int64_t label_every = config.causal() ? 1
                              : classifies    ? config.length
                                              : kLabelEvery;
  const int64_t rows = size * config.length;
  const int64_t vocabulary = std::max<int64_t>(config.vocabulary, 1);
  // A step coprime to most vocabularies spreads the ids.
  const auto id = [&](int64_t i) {
    return static_cast<int32_t>(i * 7919 % vocabulary);
  };
  for (int64_t i = 0; i < rows; ++i) {
    batch.ids.push_back(id(i));
    batch.segments.push_back(0);
    batch.mask.push_back(1);
    if (i % label_every != 0) continue;
    batch.label_rows.push_back(static_cast<int32_t>(i));
    batch.labels.push_back(classifies ? 0 : id(i + 1));
  }
  return batch;
}

absl::StatusOr<StepPrediction> PredictStep(const ModelConfig& config,
                                           int64_t batch_size,
                                           const kernels::MachineSpeed& speed,
                                           int64_t parts) {
  kernels::CpuOptions cpu;
  cpu.threads = speed.threads;
  const auto sizes = kernels::CreateCpuBackend(cpu);
  kernels::OperationCosts costs;
  const auto backend = kernels::CreateCostBackend(sizes.get(), speed, &costs);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelPlan> plan,
      ModelPlan::Create(config, batch_size, CreateModel, backend.get()));
  Model& model = plan->model();
  StepPrediction prediction;
  prediction.activation_bytes = model.activation_bytes();
  constexpr int64_t kFloat = sizeof(float);
  const int64_t moments = model.layout().moments_size();
  prediction.parameter_bytes = plan->size() * kFloat;
  prediction.gradient_bytes = plan->gradients().size * kFloat;
  prediction.optimizer_bytes =
      (2 * moments + model.layout().projectors_size()) * kFloat;
  const auto take = [&](int64_t times, kernels::OperationCosts::Entry* to) {
    *to = costs.total;
    Repeat(times, to);
    for (const auto& [name, work] : costs.by_name) {
      prediction.seconds_of[name] += static_cast<double>(times) * work.seconds;
    }
    for (const auto& [work, count] : costs.gpu_works) {
      prediction.gpu_works[work] += times * count;
    }
    costs.Clear();
  };

  costs.Clear();
  const kernels::StepState state;
  RETURN_IF_ERROR(backend->Fill(plan->reduced(), 0));
  RETURN_IF_ERROR(model.Forward(SyntheticBatch(config, batch_size),
                                plan->parameters().data, /*train=*/true,
                                &state));
  // The parts are alike.
  take(parts, &prediction.forward);
  RETURN_IF_ERROR(Backward(*plan));
  take(parts, &prediction.backward);
  // The objective's passes: the scale of the loss, and the cores' l2 term. All
  // gradients pass by, however many are in memory at a time.
  const kernels::Vector gradients(plan->gradients().data, plan->trained_size());
  RETURN_IF_ERROR(backend->Scale(1, gradients));
  RETURN_IF_ERROR(backend->Axpy(0, plan->trained_parameters(), gradients));
  RETURN_IF_ERROR(Update(*plan, gradients, backend.get()));
  take(1, &prediction.optimizer);
  return prediction;
}

absl::StatusOr<double> PredictStepSeconds(ModelConfig config,
                                          int64_t batch_size,
                                          const kernels::MachineSpeed& speed) {
  config.machine = speed;
  ASSIGN_OR_RETURN(const StepPrediction prediction,
                   PredictStep(config, batch_size, speed));
  return prediction.seconds();
}

}  // namespace comera::trainer
