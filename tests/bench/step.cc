// Measures time and memory of one training step of a whole model, under any
// method.
//   bazel run //tests/bench:step -- --method=comera --batch=32 --json
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bench_device.h"
#include "tests/bench/bench_job.h"
#include "tests/bench/timed_step.h"
#include "tests/bench/timing_backend.h"
#include "worker/trainer/planning/calibration.h"
#include "worker/trainer/process/make_backend.h"

namespace comera::bench {
namespace {

struct Flags {
  std::string model = "six_encoder";
  std::string method;
  std::string device = "cpu", precision;
  int batch = 32;
  int threads = 0;
  bool overlap_launches = false;
  StepOptions step;
  std::vector<std::string> overrides;
  std::vector<std::string> modes = {"eager"};
  bool calibrate = false;
  bool operations = false;
  bool json = false;
};

int64_t PeakRssBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

nlohmann::ordered_json ToJson(const Flags& flags, const BenchJob& job,
                              const std::string& mode, const StepFigures& f) {
  return {
      {"model", flags.model},
      {"method",
       v1::CompressionSpec::Method_Name(job.spec.compression().method())},
      {"device", flags.device},
      {"precision",
       v1::TrainingSpec::Precision_Name(job.spec.training().precision())},
      {"threads", flags.threads},
      {"mode", flags.overlap_launches ? mode + ", overlapped" : mode},
      {"batch", job.spec.training().batch_size()},
      {"steps", flags.step.steps},
      {"rank_scale", flags.step.rank_scale},
      {"step_seconds", f.step_seconds},
      {"predicted_step_seconds", f.predicted_step_seconds},
      {"replayed_steps", f.replayed},
      {"forward_seconds", f.forward_seconds},
      {"backward_seconds", f.backward_seconds},
      {"optimizer_seconds", f.optimizer_seconds},
      {"peak_rss_bytes", PeakRssBytes()},
      {"activation_bytes", f.activation_bytes},
      {"optimizer_state_bytes", f.optimizer_state_bytes},
      {"parameters", f.parameters},
      {"dense_parameters", f.dense_parameters},
      {"sync_bytes_per_step", f.sync_bytes_per_step},
      {"tokens_per_second", static_cast<double>(f.tokens) / f.step_seconds},
      {"first_loss", f.losses.front()},
      {"last_loss", f.losses.back()},
  };
}

using Times = std::map<std::string, TimingBackend::Times>;

// Operations of one step, the slowest first, beside what the planner predicts.
nlohmann::ordered_json ToJson(const Times& times, int steps,
                              const std::map<std::string, double>& predicted) {
  std::vector<std::pair<std::string, TimingBackend::Times>> rows(times.begin(),
                                                                 times.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [name, each] : rows) {
    list.push_back({{"name", name},
                    {"calls", each.calls / steps},
                    {"seconds", each.seconds / steps}});
    const auto found = predicted.find(name);
    if (found != predicted.end()) {
      list.back()["predicted_seconds"] = found->second;
    }
  }
  return list;
}

void PrintTable(const char* title, const nlohmann::ordered_json& list) {
  std::cout << absl::StrFormat("%-32s %6s %10s %10s\n", title, "calls", "ms",
                               "predicted");
  for (const auto& each : list) {
    const double predicted = each.value("predicted_seconds", 0.0);
    std::cout << absl::StrFormat(
        "%-32s %6d %10.3f %10s\n", each["name"].get<std::string>(),
        each["calls"].get<int64_t>(), 1e3 * each["seconds"].get<double>(),
        predicted > 0 ? absl::StrFormat("%.3f", 1e3 * predicted) : "");
  }
  std::cout << "\n";
}

// Times each operation of a step by itself.
absl::Status TimeOperations(const Flags& flags, const v1::JobSpec& spec,
                            StepOptions options, kernels::Backend* backend) {
  TimingBackend timing(backend, [] {
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  });
  options.graph = false;
  // The first steps load kernels and touch their memory for the first time.
  options.on_warm = [&] { timing.Clear(); };
  ASSIGN_OR_RETURN(const StepFigures figures,
                   MeasureSteps(spec, options, &timing));
  const auto operations =
      ToJson(timing.operations(), options.steps, figures.predicted_seconds_of);
  const auto products = ToJson(timing.products(), options.steps, {});
  if (!flags.json) {
    PrintTable("operation", operations);
    PrintTable("product", products);
    return absl::OkStatus();
  }
  std::cout << nlohmann::ordered_json(
                   {{"model", flags.model},
                    {"precision", v1::TrainingSpec::Precision_Name(
                                      spec.training().precision())},
                    {"batch", spec.training().batch_size()},
                    {"operations", operations},
                    {"products", products}})
                   .dump()
            << std::endl;
  return absl::OkStatus();
}

// Multiplies two matrices too large for the engine's own kernels.
absl::Status MultiplyOnce(kernels::Backend* backend) {
  constexpr int64_t kSide = 512;
  ASSIGN_OR_RETURN(void* const memory,
                   backend->Allocate(2 * kSide * kSide * sizeof(float)));
  const kernels::Matrix a(static_cast<float*>(memory), kSide, kSide);
  const kernels::Matrix c(a.data + kSide * kSide, kSide, kSide);
  absl::Status status = backend->Gemm(false, false, 1, a, a, 0, c);
  status.Update(backend->Synchronize());
  backend->Free(memory);
  return status;
}

absl::Status Run(const Flags& flags) {
  absl::StatusOr<BenchJob> job =
      MakeBenchJob(flags.model, flags.method, flags.batch, flags.overrides);
  if (!job.ok()) return job.status();
  StepOptions options = flags.step;
  if (options.vocabulary == 0) options.vocabulary = job->vocabulary;
  if (!flags.precision.empty()) {
    job->spec.mutable_training()->set_precision(
        ParsePrecision(flags.precision));
  }
  if (flags.overlap_launches &&
      ParseDevice(flags.device) != v1::ResourceSpec::GPU) {
    return absl::InvalidArgumentError(
        "--overlap_launches: only a GPU has launches (--device=cuda)");
  }
  trainer::BackendOptions device;
  device.device = ParseDevice(flags.device);
  device.precision = job->spec.training().precision();
  device.threads = flags.threads;
  device.overlap_launches = flags.overlap_launches;
  ASSIGN_OR_RETURN(const std::string device_name, trainer::DeviceName(device));
  // The change of free memory from a second backend's creation on tells what
  // one takes, including scratch memory but not the driver's own, nor the code
  // of cuBLAS, which the first one loads.
  std::unique_ptr<kernels::Backend> first;
  int64_t free_bytes = 0;
  if (device.device == v1::ResourceSpec::GPU) {
    ASSIGN_OR_RETURN(first, trainer::MakeBackend(device));
    RETURN_IF_ERROR(MultiplyOnce(first.get()));
    ASSIGN_OR_RETURN(free_bytes, first->FreeBytes());
  }
  ASSIGN_OR_RETURN(const auto backend, trainer::MakeBackend(device));
  const trainer::Machine machine = trainer::MachineOf(device);
  if (machine.gpu) options.machine = machine.defaults;
  if (flags.calibrate) {
    const auto speed = trainer::MeasureMachine(backend.get(), machine);
    if (!speed.ok()) return speed.status();
    options.machine = *speed;
  }
  if (flags.operations) {
    return TimeOperations(flags, job->spec, options, backend.get());
  }
  for (const std::string& mode : flags.modes) {
    options.graph = mode == "graph";
    ASSIGN_OR_RETURN(const StepFigures figures,
                     MeasureSteps(job->spec, options, backend.get()));
    nlohmann::ordered_json json = ToJson(flags, *job, mode, figures);
    json["device_name"] = device_name;
    if (first != nullptr) {
      json["peak_device_bytes"] = free_bytes - figures.free_bytes;
    }
    if (flags.json) {
      std::cout << json.dump() << std::endl;
      continue;
    }
    for (const auto& [key, value] : json.items()) {
      std::cout << absl::StrFormat("%-20s %s\n", key, value.dump());
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) {
  comera::bench::Flags flags;
  CLI::App app("Time and memory of one training step (medians)");
  app.add_option("--model", flags.model,
                 "six_encoder, codebert_large, llama_60m, dlrm, or a job file")
      ->capture_default_str();
  app.add_option("--method", flags.method,
                 "comera, dense, galore, lora, lte or cola; default: the job's")
      ->capture_default_str();
  app.add_option("--batch", flags.batch, "samples per step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  comera::bench::AddDeviceFlags(&app, &flags.device, &flags.precision);
  app.add_flag("--overlap_launches", flags.overlap_launches,
               "a GPU sets a kernel up while the one before it runs");
  app.add_option("--threads", flags.threads, "0: all cores")
      ->capture_default_str();
  app.add_option("--steps", flags.step.steps, "measured, after 2 to warm up")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--fill", flags.step.fill,
                 "mean share of real tokens in a sequence")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--rank_scale", flags.step.rank_scale,
                 "multiplies every tensor-train rank")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 4.0));
  app.add_option("--modes", flags.modes,
                 "how operations reach the device, one after the other")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember({"eager", "graph"}));
  app.add_flag("--calibrate", flags.calibrate,
               "measure the machine first, and predict with that (6 s)");
  app.add_option("--vocabulary", flags.step.vocabulary,
                 "rows of the word embedding; default: the model's");
  app.add_option("--set", flags.overrides, "field.path=value of the job");
  app.add_flag("--operations", flags.operations,
               "time every operation on its own, beside the prediction");
  app.add_flag("--json", flags.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::bench::Run(flags);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
