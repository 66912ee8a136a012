// Trains a dense language model on real text step by step, and writes its
// initial parameters, its batches and its losses for another implementation to
// repeat.
//   bazel run //tests/bench:training_curve -- --job=FILE.yaml --out=FOLDER
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bench_job.h"
#include "tests/bench/plain_training.h"
#include "worker/trainer/data/open_training_data.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/optimizer/learning_rate.h"
#include "worker/trainer/process/make_backend.h"

namespace comera::bench {
namespace {

constexpr int64_t kNoLabel = -100;  // PyTorch's ignore_index

struct Flags {
  std::string job;
  std::string out;
  std::vector<std::string> overrides;
  int64_t steps = 300;
  int threads = 0;
};

absl::Status WriteParameters(const trainer::ParameterLayout& layout,
                             const std::vector<float>& values,
                             const std::string& path) {
  Safetensors file;
  for (const trainer::Parameter& each : layout.parameters()) {
    RETURN_IF_ERROR(file.AddFloat(each.name, each.shape,
                                  values.data() + each.offset, each.size));
  }
  return file.WriteAtomically(path);
}

// Inputs and labels of all steps, (steps, samples, tokens) each.
struct Batches {
  std::vector<int64_t> ids, labels;

  // InvalidArgument: a row holds more than one document.
  absl::Status Add(const trainer::Batch& batch) {
    for (size_t i = 0; i < batch.ids.size(); ++i) {
      if (batch.segments[i] != 0) {
        return absl::InvalidArgumentError("the text must be one document");
      }
      ids.push_back(batch.ids[i]);
    }
    const size_t first = labels.size();
    labels.resize(first + batch.ids.size(), kNoLabel);
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      labels[first + static_cast<size_t>(batch.label_rows[i])] =
          batch.labels[i];
    }
    return absl::OkStatus();
  }
};

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const BenchJob job,
                   MakeBenchJob(flags.job, "dense", 0, flags.overrides));
  const v1::JobSpec& spec = job.spec;
  trainer::BackendOptions device;
  device.threads = flags.threads;
  ASSIGN_OR_RETURN(const auto backend, trainer::MakeBackend(device));
  ASSIGN_OR_RETURN(const auto data, trainer::OpenTrainingData(spec, {}));
  ASSIGN_OR_RETURN(const trainer::ModelConfig config,
                   trainer::MakeModelConfig(spec, data->vocabulary_size()));
  const int64_t batch_size = spec.training().batch_size();
  ASSIGN_OR_RETURN(const auto training,
                   PlainTraining::Create(spec, config, backend.get()));
  RETURN_IF_ERROR(WriteParameters(training->layout(), training->initial(),
                                  flags.out + "/start.safetensors"));

  Batches batches;
  std::vector<double> losses, rates;
  for (int64_t step = 0; step < flags.steps; ++step) {
    trainer::Batch batch;
    RETURN_IF_ERROR(data->TrainBatch(step, batch_size, 0, 1, &batch));
    RETURN_IF_ERROR(batches.Add(batch));
    rates.push_back(
        trainer::LearningRateScale(spec.optimizer(), flags.steps, step));
    ASSIGN_OR_RETURN(const double loss,
                     training->Step(step, rates.back(), batch));
    losses.push_back(loss);
  }
  Safetensors file;
  const std::vector<int64_t> shape = {flags.steps, batch_size, config.length};
  for (const auto& [name, values] :
       {std::pair{"ids", &batches.ids}, std::pair{"labels", &batches.labels}}) {
    RETURN_IF_ERROR(file.AddInt64(name, shape, values->data(),
                                  static_cast<int64_t>(values->size())));
  }
  RETURN_IF_ERROR(file.WriteAtomically(flags.out + "/batches.safetensors"));
  const v1::OptimizerSpec& rule = spec.optimizer();
  const nlohmann::json curve = {
      {"losses", losses},
      {"rate_scales", rates},
      {"learning_rate", rule.learning_rate_other()},
      {"weight_decay", rule.weight_decay()},
      {"betas", {rule.beta1(), rule.beta2()}},
      {"epsilon", rule.epsilon()},
      {"clip_norm", rule.clip_norm()},
      {"vocabulary", config.vocabulary},
      {"hidden", config.hidden},
      {"ffn", config.ffn},
      {"layers", config.layers},
      {"heads", config.heads},
      {"kv_heads", config.kv_heads},
      {"norm_epsilon", config.layer_norm_epsilon},
  };
  std::ofstream out(flags.out + "/curve.json");
  out << curve.dump(1) << "\n";
  if (!out.flush()) {
    return absl::UnavailableError(
        absl::StrCat(flags.out, "/curve.json: cannot be written"));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) {
  comera::bench::Flags flags;
  CLI::App app("Trains a dense LLaMA and writes what it did");
  app.add_option("--job", flags.job, "job file")->required();
  app.add_option("--out", flags.out, "existing folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--set", flags.overrides, "field.path=value");
  app.add_option("--steps", flags.steps)
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--threads", flags.threads, "0: all cores")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::bench::Run(flags);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
