// Checks batches, phases, precision, resources and initial weights of a job.

#include "proto/validation/training_validation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/model_family.h"
#include "proto/validation/data_path_check.h"

namespace comera {
namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kMaxBatch = 1 << 20;
constexpr int kMaxPhases = 64;
constexpr int64_t kMaxTokens = int64_t{1} << 50;
constexpr double kMaxSpikeFactor = 1e9;

bool DivideAll(int64_t divisor, const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) {
    return number > 0 && number % divisor == 0;
  });
}

void CheckBatch(const std::string& field, int64_t batch_size, int64_t ranks,
                SpecChecker& check) {
  check.Range(field, batch_size, 1, kMaxBatch);
  if (ranks < 1 || batch_size < 1) return;
  check.Require(
      batch_size % ranks == 0, field,
      absl::StrCat(batch_size, " is no multiple of ", ranks, " processes"));
}

void CheckPhases(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::TrainingSpec& training = spec.training();
  if (training.phases().empty()) return;
  check.Range("training.phases", training.phases_size(), 0, kMaxPhases,
              "entries");
  check.Require(spec.model().family() != v1::ModelSpec::DLRM, "training.phases",
                "are for models with data.max_length");
  int64_t steps = 0;
  for (int i = 0; i < std::min(training.phases_size(), kMaxPhases); ++i) {
    const v1::Phase& phase = training.phases(i);
    const std::string field = absl::StrCat("training.phases[", i, "]");
    check.Range(field + ".steps", phase.steps(), 1, kMaxSteps);
    check.Range(field + ".max_length", phase.max_length(), 8,
                std::max(8, spec.data().max_length()));
    CheckBatch(field + ".batch_size", phase.batch_size(),
               spec.resources().processes(), check);
    steps += std::clamp<int64_t>(phase.steps(), 0, kMaxSteps);
  }
  check.Require(steps == spec.objective().early().steps(), "training.phases",
                absl::StrCat("have ", steps, " steps together, ",
                             "objective.early.steps is ",
                             spec.objective().early().steps()));
}

// Requires that every process's share of the batches has as many samples as
// there are parts, or a multiple, for every number of processes that the job
// may run with.
void CheckAccumulate(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::TrainingSpec& training = spec.training();
  const std::string field = "training.accumulate";
  const int64_t parts = training.accumulate();
  check.Range(field, parts, 1, kMaxBatch);
  if (parts <= 1 || parts > kMaxBatch) return;
  std::vector<int64_t> batches = {training.batch_size()};
  for (const v1::Phase& phase : training.phases()) {
    batches.push_back(phase.batch_size());
  }
  const int64_t most = std::clamp(spec.resources().processes(), 1, 1024);
  const int64_t least = spec.resources().min_processes() > 0
                            ? spec.resources().min_processes()
                            : most;
  for (int64_t processes = most; processes >= least; --processes) {
    // Elastic jobs run with numbers that divide all batches.
    if (!DivideAll(processes, batches)) continue;
    for (const int64_t batch : batches) {
      if (batch % (processes * parts) == 0) continue;
      return check.Add(
          field, absl::StrCat("must be a divisor of each process's share of "
                              "the batch, ",
                              batch, " samples / ", processes, " processes = ",
                              batch / processes, ", not ", parts));
    }
  }
}

void CheckInitialWeights(const v1::JobSpec& spec, SpecChecker& check) {
  if (!spec.has_initial_weights()) return;
  CheckDataPath("initial_weights.safetensors",
                spec.initial_weights().safetensors(), PathKind::kFileOrFolder,
                check);
  check.Require(spec.model().family() != v1::ModelSpec::DLRM, "initial_weights",
                "are not for DLRM");
}

}  // namespace

void CheckTraining(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::TrainingSpec& training = spec.training();
  const v1::ResourceSpec& resources = spec.resources();
  CheckBatch("training.batch_size", training.batch_size(),
             resources.processes(), check);
  check.Range("training.report_every_steps", training.report_every_steps(), 1,
              kMaxSteps);
  check.Range("training.validate_every_steps", training.validate_every_steps(),
              1, kMaxSteps);
  if (training.validation_samples() != -1) {
    check.Range("training.validation_samples", training.validation_samples(), 1,
                kMaxSteps);
  }
  check.Range("resources.processes", resources.processes(), 1, 1024);
  if (resources.min_processes() != 0) {
    check.Range("resources.min_processes", resources.min_processes(), 1,
                std::max(1, resources.processes()));
    CheckBatch("training.batch_size", training.batch_size(),
               resources.min_processes(), check);
    check.Require(spec.compression().method() != v1::CompressionSpec::LTE,
                  "resources.min_processes",
                  "is not for LTE: its heads share out the batch by processes");
  }
  check.Range("resources.threads_per_process", resources.threads_per_process(),
              0, 1024);
  check.Range("resources.memory_bytes", resources.memory_bytes(), 0, kMaxBytes);
  check.Require(training.precision() != v1::TrainingSpec::TF32 ||
                    resources.device() != v1::ResourceSpec::CPU,
                "training.precision",
                "TF32 needs a GPU, resources.device is CPU");
  const int64_t width = HeadWidth(spec.model());
  if (resources.device() == v1::ResourceSpec::GPU) {
    check.Require(
        width <= kMostGpuHeadWidth, "model.heads",
        absl::StrCat("heads of ", width, " columns; a GPU takes ",
                     kMostGpuHeadWidth, " at most (or resources.device: CPU)"));
  }
  check.Require(width <= kMostGpuHeadWidth ||
                    training.precision() != v1::TrainingSpec::TF32,
                "training.precision",
                "TF32 needs a GPU, which the model's heads are too wide for");
  check.Range("training.max_tokens", training.max_tokens(), 0, kMaxTokens);
  check.Require(
      training.spike_factor() == 0 ||
          (training.spike_factor() > 1 &&
           training.spike_factor() <= kMaxSpikeFactor),
      "training.spike_factor",
      absl::StrCat("must be 0, or above 1 and at most ", kMaxSpikeFactor,
                   ", not ", training.spike_factor()));
  CheckPhases(spec, check);
  CheckAccumulate(spec, check);
  CheckInitialWeights(spec, check);
}

}  // namespace comera
