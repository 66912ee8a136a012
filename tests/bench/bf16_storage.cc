// Trains a model twice on a processor: in float32, and as a GPU keeps it in
// memory where the precision is bfloat16, with the same roundings. Prints the
// losses of both side by side, which tells what the rounding costs.
//   bazel run //tests/bench:bf16_storage -- --job=FILE.yaml
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/bench/bench_job.h"
#include "tests/bench/plain_training.h"
#include "tests/fakes/bf16_backend.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/optimizer/learning_rate.h"

namespace comera::bench {
namespace {

struct Flags {
  std::string job;
  std::vector<std::string> overrides;
  int64_t steps = 300;
  int64_t report_every = 50;
  int threads = 0;
};

// The losses of all steps.
absl::StatusOr<std::vector<double>> Train(const v1::JobSpec& spec, bool bf16,
                                          const Flags& flags) {
  const auto cpu = kernels::CreateCpuBackend({flags.threads, 0});
  kernels::Bf16Device device(cpu.get());
  kernels::Backend* const backend = bf16 ? &device : cpu.get();
  ASSIGN_OR_RETURN(const auto data, trainer::OpenTrainingData(spec, {}));
  ASSIGN_OR_RETURN(trainer::ModelConfig config,
                   trainer::MakeModelConfig(spec, data->vocabulary_size()));
  if (bf16) {
    config.machine = kernels::TypicalGpu(kernels::GpuProducts::kBf16);
  }
  ASSIGN_OR_RETURN(const auto training,
                   PlainTraining::Create(spec, config, backend));
  std::vector<double> losses;
  for (int64_t step = 0; step < flags.steps; ++step) {
    trainer::Batch batch;
    RETURN_IF_ERROR(
        data->TrainBatch(step, spec.training().batch_size(), 0, 1, &batch));
    ASSIGN_OR_RETURN(const double loss,
                     training->Step(step,
                                    trainer::LearningRateScale(
                                        spec.optimizer(), flags.steps, step),
                                    batch));
    losses.push_back(loss);
    if ((step + 1) % flags.report_every == 0) {
      std::cerr << (bf16 ? "bfloat16" : "float32") << " step " << step + 1
                << "\n";
    }
  }
  return losses;
}

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const BenchJob job,
                   MakeBenchJob(flags.job, "", 0, flags.overrides));
  ASSIGN_OR_RETURN(const std::vector<double> floats,
                   Train(job.spec, false, flags));
  ASSIGN_OR_RETURN(const std::vector<double> bf16,
                   Train(job.spec, true, flags));
  std::cout << "mean loss of steps  float32  bfloat16  apart\n";
  for (int64_t first = 0; first + flags.report_every <= flags.steps;
       first += flags.report_every) {
    double a = 0, b = 0;
    for (int64_t i = first; i < first + flags.report_every; ++i) {
      a += floats[i] / static_cast<double>(flags.report_every);
      b += bf16[i] / static_cast<double>(flags.report_every);
    }
    std::cout << absl::StrFormat("%8d to %6d  %7.4f  %8.4f  %+.3f%%\n",
                                 first + 1, first + flags.report_every, a, b,
                                 100 * (b / a - 1));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) {
  comera::bench::Flags flags;
  CLI::App app("Compares training in bfloat16 memory with float32");
  app.add_option("--job", flags.job, "job file")->required();
  app.add_option("--set", flags.overrides, "field.path=value");
  app.add_option("--steps", flags.steps)
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--report-every", flags.report_every, "steps of a row")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--threads", flags.threads, "0: all cores")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::bench::Run(flags);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
