// Creates the backend of the flags once per precision and times operations on
// it.

#include "tests/bench/ops_bench.h"

#include <map>
#include <utility>

namespace comera::kernels {
namespace {

using benchmark::Counter;

// The number of operations in a graph; enough to hide the latency of a launch.
constexpr int kReplayed = 20;

// Keeps one backend per precision, because a benchmark is entered several times
// and a device takes long to get ready.
Backend* BackendOf(v1::TrainingSpec::Precision precision) {
  static auto* backends =
      new std::map<v1::TrainingSpec::Precision, std::unique_ptr<Backend>>;
  std::unique_ptr<Backend>& backend = (*backends)[precision];
  if (backend == nullptr) {
    trainer::BackendOptions options = OpsOptions();
    options.precision = precision;
    backend = trainer::MakeBackend(options).value();
  }
  return backend.get();
}

absl::Status Record(Backend* backend, const std::function<absl::Status()>& op,
                    std::unique_ptr<StepGraph>* graph) {
  // The first call prepares what it needs.
  absl::Status status = op();
  if (status.ok()) status = backend->Synchronize();
  if (status.ok()) status = backend->BeginCapture();
  if (!status.ok()) return status;
  for (int i = 0; i < kReplayed; ++i) status.Update(op());
  absl::StatusOr<std::unique_ptr<StepGraph>> recorded = backend->EndCapture();
  status.Update(recorded.status());
  if (status.ok()) *graph = *std::move(recorded);
  return status;
}

}  // namespace

trainer::BackendOptions& OpsOptions() {
  static auto* options = new trainer::BackendOptions;
  return *options;
}

Buffers::~Buffers() {
  for (void* each : memory_) backend_->Free(each);
}

void* Buffers::Upload(const void* from, int64_t bytes) {
  memory_.push_back(backend_->Allocate(bytes).value());
  const absl::Status status =
      backend_->CopyToDevice(memory_.back(), from, bytes);
  return status.ok() ? memory_.back() : nullptr;
}

float* Buffers::Floats(int64_t count) {
  std::vector<float> values(count);
  for (float& each : values) {
    each = static_cast<float>(random_()) * 0x1p-31f - 1;
  }
  return static_cast<float*>(Upload(values.data(), count * sizeof(float)));
}

ConstIndices Buffers::I(const std::vector<int32_t>& values) {
  const int64_t count = static_cast<int64_t>(values.size());
  return {static_cast<const int32_t*>(
              Upload(values.data(), count * sizeof(int32_t))),
          count};
}

const StepState* Buffers::State() {
  const StepState state;
  return static_cast<const StepState*>(Upload(&state, sizeof(state)));
}

Bench::Bench(v1::TrainingSpec::Precision precision)
    : backend(BackendOf(precision)) {}

void Bench::Repeat(benchmark::State& state,
                   const std::function<absl::Status()>& op) {
  absl::Status status;
  if (backend->has_graphs()) {
    std::unique_ptr<StepGraph> graph;
    status = Record(backend, op, &graph);
    while (status.ok() && state.KeepRunningBatch(kReplayed)) {
      status = backend->Replay(*graph);
      status.Update(backend->Synchronize());
    }
  } else {
    for (auto _ : state) {
      status = op();
      if (!status.ok()) break;
    }
  }
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

void Flops(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
}

void Floats(benchmark::State& state, double floats) {
  state.counters["GB/s"] =
      Counter(floats * 4e-9, Counter::kIsIterationInvariantRate);
}

}  // namespace comera::kernels
