// Plans a model and times its steps, eager or replayed from a graph.

#include "tests/bench/timed_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "tests/bench/bench_batch.h"
#include "worker/trainer/describe/described_clicks.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/make_optimizer.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/planning/step_prediction.h"
#include "worker/trainer/step/step_readback.h"
#include "worker/trainer/step/step_runner.h"

namespace comera::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

void ScaleRanks(double scale, trainer::ModelConfig* config) {
  for (auto& [key, factorisation] : config->layers_by_name) {
    for (int64_t& rank : factorisation.ranks) {
      rank = std::max<int64_t>(1, std::llround(scale * rank));
    }
  }
}

class Steps {
 public:
  Steps(const v1::JobSpec& spec, const StepOptions& options,
        kernels::Backend* backend)
      : spec_(spec),
        backend_(backend),
        arena_(backend),
        runner_(backend, options.graph,
                [](const std::string& why) { std::cerr << why << "\n"; }) {}

  absl::Status Plan(const StepOptions& options) {
    std::vector<std::string> unused_assumptions;
    const bool clicks = spec_.model().family() == v1::ModelSpec::DLRM;
    ASSIGN_OR_RETURN(
        trainer::ModelConfig config,
        clicks
            ? trainer::MakeModelConfig(
                  spec_, trainer::DescribedClicks(spec_, &unused_assumptions))
            : trainer::MakeModelConfig(spec_, options.vocabulary));
    config.machine = options.machine;
    config.pad_batches =
        options.pad_batches || (options.graph && backend_->has_graphs());
    ScaleRanks(options.rank_scale, &config);
    const int64_t batch_size = spec_.training().batch_size();
    ASSIGN_OR_RETURN(prediction_,
                     trainer::PredictStep(config, batch_size, options.machine));
    ASSIGN_OR_RETURN(
        plan_, trainer::ModelPlan::Create(config, batch_size,
                                          trainer::CreateModel, backend_));
    state_ = arena_.Reserve("step state", sizeof(kernels::StepState));
    RETURN_IF_ERROR(arena_.Commit());
    const trainer::Model& model = plan_->model();
    std::vector<float> initial(plan_->size());
    model.Initialise(spec_.training().seed(), initial.data());
    RETURN_IF_ERROR(plan_->Upload(initial, plan_->parameters()));
    trainer::ObjectiveOptions objective;
    objective.fixed_size =
        static_cast<double>(trainer::FixedSize(model.layout()));
    objective.initial_size = static_cast<double>(plan_->size());
    ASSIGN_OR_RETURN(objective_,
                     trainer::CreateObjective(
                         spec_.objective().kind(), objective,
                         model.tensorised_layers(), model.layout(), backend_));
    ASSIGN_OR_RETURN(optimizer_, trainer::MakeOptimizer(
                                     spec_, config, model.layout(), backend_));
    if (objective_->on_device(v1::EARLY) && optimizer_->on_device()) {
      ASSIGN_OR_RETURN(loss_readback_, trainer::StepReadback::Create(
                                           {{model.totals(), 3}}, backend_));
    }
    fill_ = options.fill;
    NextBatch(0);
    return absl::OkStatus();
  }

  void NextBatch(int64_t step) {
    batch_ = RandomBatch(plan_->config(), spec_.training().batch_size(), fill_,
                         spec_.training().seed() + step);
  }

  // Losses are read in order: this step's now, or together with the next step.
  absl::Status Run(int64_t step, StepFigures* figures) {
    const auto start = Clock::now();
    kernels::StepState values;
    values.seed = spec_.training().seed();
    values.step = static_cast<uint64_t>(step);
    optimizer_->FillState(step + 1, 1, &values);
    RETURN_IF_ERROR(backend_->CopyToDevice(state(), &values, sizeof(values)));
    trainer::Model& model = plan_->model();
    RETURN_IF_ERROR(model.SetBatch(batch_, /*train=*/true, state()));
    shape_.clear();
    model.AppendShape(&shape_);
    auto forward = start, backward = start;
    ASSIGN_OR_RETURN(
        const bool replayed, runner_.Run(shape_, [&]() -> absl::Status {
          RETURN_IF_ERROR(backend_->Fill(plan_->reduced(), 0));
          RETURN_IF_ERROR(model.Forward(plan_->parameters().data));
          forward = Clock::now();
          RETURN_IF_ERROR(model.Backward(plan_->parameters().data,
                                         plan_->gradients().data));
          backward = Clock::now();
          return loss_readback_ != nullptr ? EnqueueUpdate() : absl::OkStatus();
        }));
    if (loss_readback_ == nullptr) {
      RETURN_IF_ERROR(UpdateFromHost(step, figures));
    } else {
      RETURN_IF_ERROR(loss_readback_->Enqueue());
      if (step > 0) RETURN_IF_ERROR(ReadLoss(figures));
    }
    const auto end = Clock::now();
    figures->step_seconds = Seconds(start, end);
    figures->forward_seconds = Seconds(start, forward);
    figures->backward_seconds = Seconds(forward, backward);
    figures->optimizer_seconds = replayed ? 0 : Seconds(backward, end);
    figures->replayed += replayed;
    return absl::OkStatus();
  }

  // Reads the losses that are still outstanding.
  absl::Status Finish(StepFigures* figures) {
    if (loss_readback_ != nullptr) RETURN_IF_ERROR(ReadLoss(figures));
    return backend_->Synchronize();
  }

  void Describe(StepFigures* figures) {
    figures->predicted_step_seconds = prediction_.seconds();
    figures->predicted_seconds_of = prediction_.seconds_of;
    figures->tokens = batch_.mask.empty()
                          ? batch_.size
                          : static_cast<int64_t>(std::count(
                                batch_.mask.begin(), batch_.mask.end(), 1.0f));
    figures->parameters = plan_->size();
    figures->dense_parameters = trainer::DenseParameterCount(plan_->config());
    figures->sync_bytes_per_step =
        plan_->reduced().size * static_cast<int64_t>(sizeof(float));
    figures->optimizer_state_bytes =
        trainer::OptimizerStateBytes(plan_->model().layout());
    figures->activation_bytes = plan_->model().activation_bytes();
  }

 private:
  kernels::StepState* state() const {
    return static_cast<kernels::StepState*>(arena_.Address(state_));
  }

  absl::Status EnqueueUpdate() {
    RETURN_IF_ERROR(objective_->Enqueue(plan_->model().totals() + 1,
                                        plan_->trained_parameters(),
                                        plan_->gradients()));
    return optimizer_->Enqueue(state(), plan_->parameters(), plan_->gradients(),
                               plan_->optimizer_state());
  }

  absl::Status UpdateFromHost(int64_t step, StepFigures* figures) {
    // Memory for a replay, because ReadLoss would need a Forward.
    float totals[2];
    RETURN_IF_ERROR(
        backend_->CopyToHost(totals, plan_->model().totals(), sizeof(totals)));
    const double labels = totals[1], loss = totals[0] / labels;
    figures->losses.push_back(loss);
    RETURN_IF_ERROR(objective_
                        ->Apply({loss, loss}, v1::EARLY, 1 / labels,
                                plan_->trained_parameters(), plan_->gradients())
                        .status());
    RETURN_IF_ERROR(optimizer_
                        ->Step(step + 1, 1, plan_->parameters(),
                               plan_->gradients(), plan_->optimizer_state())
                        .status());
    return backend_->Synchronize();
  }

  // Waits for the oldest step whose loss was not taken.
  absl::Status ReadLoss(StepFigures* figures) {
    ASSIGN_OR_RETURN(const float* const totals, loss_readback_->Await());
    figures->losses.push_back(double{totals[0]} / totals[1]);
    return absl::OkStatus();
  }

  const v1::JobSpec& spec_;
  kernels::Backend* const backend_;
  kernels::Arena arena_;
  kernels::Arena::Piece state_ = 0;
  std::unique_ptr<trainer::ModelPlan> plan_;
  std::unique_ptr<trainer::Objective> objective_;
  std::unique_ptr<trainer::Optimizer> optimizer_;
  std::unique_ptr<trainer::StepReadback> loss_readback_;
  trainer::StepRunner runner_;
  trainer::StepRunner::Shape shape_;
  trainer::Batch batch_;
  double fill_ = 1;
  trainer::StepPrediction prediction_;
};

}  // namespace

absl::StatusOr<StepFigures> MeasureSteps(const v1::JobSpec& spec,
                                         const StepOptions& options,
                                         kernels::Backend* backend) {
  Steps steps(spec, options, backend);
  RETURN_IF_ERROR(steps.Plan(options));
  StepFigures figures;
  std::vector<double> whole, forward, backward, optimizer;
  for (int i = 0; i < options.warm_up + options.steps; ++i) {
    if (i == options.warm_up && options.on_warm) options.on_warm();
    if (options.fresh_batches) steps.NextBatch(i);
    RETURN_IF_ERROR(steps.Run(i, &figures));
    if (i < options.warm_up) continue;
    whole.push_back(figures.step_seconds);
    forward.push_back(figures.forward_seconds);
    backward.push_back(figures.backward_seconds);
    optimizer.push_back(figures.optimizer_seconds);
  }
  RETURN_IF_ERROR(steps.Finish(&figures));
  figures.step_seconds = Median(std::move(whole));
  figures.forward_seconds = Median(std::move(forward));
  figures.backward_seconds = Median(std::move(backward));
  figures.optimizer_seconds = Median(std::move(optimizer));
  steps.Describe(&figures);
  ASSIGN_OR_RETURN(figures.free_bytes, backend->FreeBytes());
  return figures;
}

}  // namespace comera::bench
