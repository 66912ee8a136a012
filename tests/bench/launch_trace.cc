// Traces a step by a CUDA backend whose device notes work instead of doing it.
#include "tests/bench/launch_trace.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "kernels/arena.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/forwarding_backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/objective/create_objective.h"
#include "worker/trainer/optimizer/make_optimizer.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/planning/step_prediction.h"

namespace comera::bench {
namespace {

using fake_cuda::NotedWork;

// Attributes what a call enqueues to its operation.
class TracingBackend : public kernels::ForwardingBackend {
 public:
  explicit TracingBackend(kernels::Backend* backend)
      : ForwardingBackend(backend) {
    fake_cuda::NoteWork(&noted_);
  }
  ~TracingBackend() override { fake_cuda::NoteWork(nullptr); }

  absl::Status BeginTogether() override {
    ++depth_;
    return backend()->BeginTogether();
  }
  absl::Status EndTogether() override {
    const absl::Status status = backend()->EndTogether();
    if (--depth_ == 0) Attribute("Together", status);
    return status;
  }

  void Start() {
    noted_.clear();
    trace_ = {};
  }
  const LaunchTrace& trace() const { return trace_; }

 private:
  absl::Status Call(const std::string& name, Operation operation) override {
    const absl::Status status = operation();
    if (depth_ == 0) Attribute(name, status);
    return status;
  }

  void Attribute(const std::string& name, const absl::Status& status) {
    if (!status.ok()) return;
    LaunchTrace::Operation& to = trace_.operations[name];
    ++to.calls;
    for (const NotedWork& work : noted_) {
      switch (work.kind) {
        case NotedWork::kKernel:
          ++to.kernels;
          break;
        case NotedWork::kCopy:
          ++to.copies;
          break;
        case NotedWork::kFill:
          ++to.fills;
          break;
        case NotedWork::kProduct:
          ++to.products;
          trace_.misaligned_products += work.misaligned ? 1 : 0;
          // By columns c transposed is op(b)^T op(a)^T.
          ++trace_.products[{work.n, work.m, work.k, work.transpose_b,
                             work.transpose_a, work.misaligned, work.batch}];
          break;
      }
    }
    noted_.clear();
  }

  std::vector<NotedWork> noted_;
  LaunchTrace trace_;
  int depth_ = 0;
};

kernels::GpuProducts ProductsOf(kernels::CudaPrecision precision) {
  switch (precision) {
    case kernels::CudaPrecision::kBf16:
      return kernels::GpuProducts::kBf16;
    case kernels::CudaPrecision::kTf32:
      return kernels::GpuProducts::kTf32;
    case kernels::CudaPrecision::kFp32:
      break;
  }
  return kernels::GpuProducts::kFp32;
}

// A step as the training loop enqueues it.
absl::Status EnqueueStep(const v1::JobSpec& spec,
                         const trainer::ModelConfig& config,
                         TracingBackend* backend, int64_t* activation_bytes) {
  const int64_t batch_size = spec.training().batch_size();
  ASSIGN_OR_RETURN(const auto plan,
                   trainer::ModelPlan::Create(config, batch_size,
                                              trainer::CreateModel, backend));
  kernels::Arena arena(backend);
  const auto state_piece = arena.Reserve("state", sizeof(kernels::StepState));
  RETURN_IF_ERROR(arena.Commit());
  const auto* const state =
      static_cast<const kernels::StepState*>(arena.Address(state_piece));
  trainer::Model& model = plan->model();
  *activation_bytes = model.activation_bytes();
  trainer::ObjectiveOptions options;
  options.fixed_size = static_cast<double>(trainer::FixedSize(model.layout()));
  options.initial_size = static_cast<double>(plan->size());
  ASSIGN_OR_RETURN(const auto objective,
                   trainer::CreateObjective(spec.objective().kind(), options,
                                            model.tensorised_layers(),
                                            model.layout(), backend));
  ASSIGN_OR_RETURN(
      const auto optimizer,
      trainer::MakeOptimizer(spec, config, model.layout(), backend));
  RETURN_IF_ERROR(model.SetBatch(trainer::SyntheticBatch(config, batch_size),
                                 /*train=*/true, state));
  backend->Start();
  RETURN_IF_ERROR(backend->Fill(plan->reduced(), 0));
  RETURN_IF_ERROR(model.Forward(plan->parameters().data));
  RETURN_IF_ERROR(
      model.Backward(plan->parameters().data, plan->gradients().data));
  RETURN_IF_ERROR(objective->Enqueue(
      model.totals() + 1, plan->trained_parameters(), plan->gradients()));
  return optimizer->Enqueue(state, plan->parameters(), plan->gradients(),
                            plan->optimizer_state());
}

}  // namespace

int64_t LaunchTrace::launches() const {
  int64_t sum = 0;
  for (const auto& [name, operation] : operations) sum += operation.launches();
  return sum;
}

std::string LaunchTrace::Text() const {
  std::string text = absl::StrFormat(
      "launches %d, products off 16 bytes %d, multiply-adds %.3g, bytes moved "
      "%.3g\n\noperation calls kernels products copies fills\n",
      launches(), misaligned_products, multiply_adds, moved_bytes);
  for (const auto& [name, o] : operations) {
    absl::StrAppendFormat(&text, "%s %d %d %d %d %d\n", name, o.calls,
                          o.kernels, o.products, o.copies, o.fills);
  }
  absl::StrAppend(&text, "\nproduct rows cols inner operands times\n");
  for (const auto& [p, times] : products) {
    absl::StrAppendFormat(
        &text, "%d %d %d %s%s%s%s %d\n", p.rows, p.cols, p.inner,
        p.transpose_a ? "T" : "N", p.transpose_b ? "T" : "N",
        p.misaligned ? " off-16-bytes" : "",
        p.batch > 1 ? absl::StrCat(" of-", p.batch) : "", times);
  }
  return text;
}

absl::StatusOr<LaunchTrace> TraceStep(const v1::JobSpec& spec,
                                      int64_t vocabulary,
                                      kernels::CudaPrecision precision) {
  ASSIGN_OR_RETURN(trainer::ModelConfig config,
                   trainer::MakeModelConfig(spec, vocabulary));
  config.machine = kernels::TypicalGpu(ProductsOf(precision));
  config.pad_batches = true;
  fake_cuda::FakeDevice device;
  device.total_bytes = int64_t{140} << 30;
  fake_cuda::SetFakeDevice(device);
  const int64_t bytes_before = fake_cuda::CurrentCounts().device_bytes;
  kernels::CudaOptions options;
  options.precision = precision;
  ASSIGN_OR_RETURN(const auto cuda, kernels::CreateCudaBackend(options));
  LaunchTrace trace;
  {
    TracingBackend backend(cuda.get());
    int64_t activation_bytes = 0;
    RETURN_IF_ERROR(EnqueueStep(spec, config, &backend, &activation_bytes));
    trace = backend.trace();
    trace.activation_bytes = activation_bytes;
  }
  trace.backend_bytes = fake_cuda::CurrentCounts().device_bytes - bytes_before;
  ASSIGN_OR_RETURN(const trainer::StepPrediction prediction,
                   trainer::PredictStep(config, spec.training().batch_size(),
                                        config.machine));
  trace.multiply_adds = prediction.multiply_adds();
  trace.moved_bytes = prediction.forward.bytes + prediction.backward.bytes +
                      prediction.optimizer.bytes;
  trace.predicted_seconds = prediction.seconds();
  trace.predicted_launches = prediction.launches();
  return trace;
}

}  // namespace comera::bench
