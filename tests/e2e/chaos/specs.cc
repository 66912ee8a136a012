// Describes the jobs that train while the service is disturbed.
#include "tests/e2e/chaos/specs.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::e2e {
namespace {

// More than any chaos run takes from a job.
constexpr int kRetries = 1000;
// Fewer than some runs take, so that some jobs fail, and are resumed.
constexpr int kFewRetries = 2;
constexpr int kPriority = 10;
// Some attempts together take longer.
constexpr int kTimeLimitSeconds = 20;
constexpr int kLateSteps = 100;
constexpr char kEarlyName[] = "early", kForkName[] = "fork";

v1::JobSpec BaseSpec(const std::string& corpus, int steps) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::MASKED_LM);
  model.set_layers(1);
  model.set_hidden(32);
  model.set_ffn(64);
  model.set_heads(2);
  v1::DataSpec& data = *spec.mutable_data();
  data.mutable_code_directory()->add_roots(corpus);
  data.mutable_code_directory()->add_globs("*.py");
  data.mutable_code_directory()->set_validation_fraction(0.1);
  data.mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
  data.mutable_tokenizer()->set_train_vocabulary_size(400);
  data.set_max_length(32);
  spec.mutable_objective()->mutable_early()->set_steps(steps);
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_seed(1);
  training.set_batch_size(8);
  // Reports every step, so that a step trained twice would be seen.
  training.set_report_every_steps(1);
  training.set_validate_every_steps(steps);
  training.set_validation_samples(32);
  spec.mutable_checkpoint()->set_every_steps(25);
  spec.mutable_checkpoint()->set_durable(false);
  v1::ResourceSpec& resources = *spec.mutable_resources();
  resources.set_device(v1::ResourceSpec::CPU);
  resources.set_processes(1);
  resources.set_threads_per_process(1);
  spec.mutable_retries()->set_infrastructure(kRetries);
  spec.mutable_retries()->set_start_over(true);
  // Failures of training itself are not retried: a job that runs out of memory
  // or diverges here is a bug.
  return spec;
}

void AddLateStage(v1::JobSpec* spec) {
  v1::LateStage& late = *spec->mutable_objective()->mutable_late();
  // Any model reaches the loss; the size takes some steps.
  late.set_target_loss(20);
  late.set_target_ratio(0.9);
  late.set_max_steps(kLateSteps);
}

}  // namespace

std::vector<v1::JobSpec> ChaosSpecs(const std::string& corpus, int steps,
                                    bool plain) {
  const v1::JobSpec base = BaseSpec(corpus, steps);
  std::vector<v1::JobSpec> specs;
  const auto add = [&specs](v1::JobSpec spec, const std::string& name) {
    spec.set_display_name(name);
    specs.push_back(std::move(spec));
  };
  for (int ranks : {1, 2}) {
    for (int seed : {1, 2, 3}) {
      v1::JobSpec spec = base;
      spec.mutable_resources()->set_processes(ranks);
      spec.mutable_training()->set_seed(seed);
      spec.mutable_checkpoint()->set_durable(seed == 1);
      if (seed == 3) {
        spec.mutable_checkpoint()->set_replicas(0);
        spec.mutable_data()->mutable_code_directory()->set_roots(
            0, absl::StrCat("datasets/", kChaosDataset));
      }
      add(spec, absl::StrCat("ranks-", ranks, "-seed-", seed));
    }
  }
  v1::JobSpec spec = base;
  spec.set_priority(kPriority);
  add(spec, "priority");
  spec = base;
  spec.mutable_resources()->set_processes(2);
  spec.mutable_resources()->set_min_processes(1);
  add(spec, "elastic");
  if (plain) return specs;
  v1::JobSpec early = base;
  early.mutable_objective()->mutable_early()->set_only(true);
  add(early, kEarlyName);
  // Only the worker that trained it has its state.
  spec = base;
  spec.mutable_retries()->set_start_over(false);
  spec.mutable_checkpoint()->set_replicas(0);
  add(spec, "patient");
  spec = base;
  AddLateStage(&spec);
  add(spec, "late");
  spec = base;
  spec.mutable_time_limit()->set_seconds(kTimeLimitSeconds);
  add(spec, "limited");
  spec = base;
  spec.mutable_retries()->set_infrastructure(kFewRetries);
  // It saves the same states again when a disk is lost, which is no progress.
  spec.mutable_checkpoint()->set_replicas(0);
  add(spec, "frugal");
  spec = base;
  AddLateStage(&spec);
  add(spec, kForkName);
  return specs;
}

absl::StatusOr<std::vector<v1::JobSpec>> SelectSpecs(
    std::vector<v1::JobSpec> specs, const std::set<std::string>& names) {
  if (names.empty()) return specs;
  if (names.count(kForkName) > 0 && names.count(kEarlyName) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kForkName, " starts from ", kEarlyName));
  }
  std::vector<v1::JobSpec> selected;
  for (v1::JobSpec& spec : specs) {
    if (names.count(spec.display_name()) > 0) {
      selected.push_back(std::move(spec));
    }
  }
  if (selected.size() == names.size()) return selected;
  return absl::InvalidArgumentError("no job has one of the names in --specs");
}

bool LeavesEarlyStage(const v1::JobSpec& spec) {
  return spec.objective().early().only();
}

bool StartsFromEarlyStage(const v1::JobSpec& spec) {
  return spec.display_name() == kForkName;
}

}  // namespace comera::e2e
