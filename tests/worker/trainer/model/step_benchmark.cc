// Time of one training step of a language model (forward and backward) and
// where it goes, on random tokens.
//   bazel run //tests/worker/trainer/model:step_benchmark -- --batch=16
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/model/timing_backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/create_model.h"
#include "worker/trainer/model/interface/model.h"

namespace comera::trainer {
namespace {

struct Flags {
  std::string model = "masked_lm";  // or llama, gpt2
  int layers = 3, hidden = 192, ffn = 768, heads = 6, vocabulary = 4096;
  int batch = 16, length = 128, threads = 1, steps = 10, rank = 30;
  double mask = 0.15;  // share of tokens with a label; a decoder's usual is 1
  double dropout = 0.1;
  double filled = 1;  // mean share of tokens in a sample; the rest is padding
  bool dense = false;
};

ModelConfig Config(const Flags& flags) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(flags.model == "masked_lm" ? v1::ModelSpec::MASKED_LM
                                              : v1::ModelSpec::CAUSAL_LM);
  if (flags.model == "gpt2") model.set_architecture(v1::ModelSpec::GPT2);
  model.set_layers(flags.layers);
  model.set_hidden(flags.hidden);
  model.set_ffn(flags.ffn);
  model.set_heads(flags.heads);
  model.set_dropout(flags.dropout);
  model.set_dropout_off(flags.dropout == 0);
  spec.mutable_data()->set_max_length(flags.length);
  v1::CompressionSpec& compression = *spec.mutable_compression();
  if (flags.dense) compression.set_method(v1::CompressionSpec::DENSE);
  for (auto* layer :
       {compression.mutable_embedding(), compression.mutable_attention(),
        compression.mutable_ffn_up(), compression.mutable_ffn_down(),
        compression.mutable_head(), compression.mutable_output()}) {
    layer->add_ranks(flags.rank);
  }
  auto config = MakeModelConfig(spec, flags.vocabulary);
  if (!config.ok()) {
    std::cerr << config.status() << "\n";
    std::exit(1);
  }
  return *config;
}

Batch RandomBatch(const Flags& flags) {
  std::mt19937 random(1);
  Batch batch;
  batch.size = flags.batch;
  batch.length = flags.length;
  int tokens = 0;  // in the sample
  for (int i = 0; i < flags.batch * flags.length; ++i) {
    if (i % flags.length == 0) {
      const double spread = (random() % 2001 / 1000.0 - 1) * (1 - flags.filled);
      tokens =
          std::clamp(static_cast<int>((flags.filled + spread) * flags.length),
                     1, flags.length);
    }
    const bool token = i % flags.length < tokens;
    batch.ids.push_back(static_cast<int32_t>(random() % flags.vocabulary));
    batch.segments.push_back(0);
    batch.mask.push_back(token ? 1.0f : 0.0f);
    if (!token || random() % 10000 >= flags.mask * 10000) continue;
    batch.label_rows.push_back(i);
    batch.labels.push_back(static_cast<int32_t>(random() % flags.vocabulary));
  }
  return batch;
}

absl::Status Run(const Flags& flags) {
  const auto backend = kernels::CreateCpuBackend({flags.threads, 0});
  kernels::OperationTimes times;
  const auto timing = kernels::CreateTimingBackend(backend.get(), &times);
  auto model = CreateModel(Config(flags), flags.batch, timing.get());
  if (!model.ok()) return model.status();
  std::vector<float> parameters((*model)->layout().size());
  std::vector<float> gradients(parameters.size());
  (*model)->Initialise(1, parameters.data());
  const Batch batch = RandomBatch(flags);
  kernels::StepState state;
  double best = 1e9, best_forward = 0;
  for (int step = -2; step < flags.steps; ++step) {
    if (step == 0) times.by_name.clear();
    const auto start = std::chrono::steady_clock::now();
    absl::Status status =
        (*model)->Forward(batch, parameters.data(), true, &state);
    const auto middle = std::chrono::steady_clock::now();
    if (status.ok()) {
      status = (*model)->Backward(parameters.data(), gradients.data());
    }
    if (!status.ok()) return status;
    const auto end = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(end - start).count();
    if (step < 0 || seconds >= best) continue;
    best = seconds;
    best_forward = std::chrono::duration<double>(middle - start).count();
  }
  std::cout << absl::StrFormat(
      "%d parameters, %.1f MiB of activations, best step %.1f ms "
      "(forward %.1f), %.0f samples/s\n",
      parameters.size(), (*model)->activation_bytes() / 1048576.0, best * 1e3,
      best_forward * 1e3, flags.batch / best);
  std::vector<std::pair<double, std::string>> rows;
  double total = 0;
  std::cout << "processor time per step, all threads:\n";
  for (const auto& [name, entry] : times.by_name) {
    total += entry.seconds;
    rows.emplace_back(entry.seconds,
                      absl::StrFormat("%-28s %8.2f ms %6d calls", name,
                                      entry.seconds / flags.steps * 1e3,
                                      entry.calls / flags.steps));
  }
  std::cout << absl::StrFormat("%-28s %8.2f ms\n", "total",
                               total / flags.steps * 1e3);
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [seconds, row] : rows) {
    std::cout << row << absl::StrFormat(" %5.1f%%\n", 100 * seconds / total);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  comera::trainer::Flags flags;
  CLI::App app("Time of one training step, by operation (mean of all steps)");
  app.add_option("--model", flags.model)
      ->check(CLI::IsMember({"masked_lm", "llama", "gpt2"}));
  app.add_option("--layers", flags.layers);
  app.add_option("--hidden", flags.hidden);
  app.add_option("--ffn", flags.ffn);
  app.add_option("--heads", flags.heads);
  app.add_option("--vocabulary", flags.vocabulary);
  app.add_option("--batch", flags.batch);
  app.add_option("--length", flags.length);
  app.add_option("--threads", flags.threads);
  app.add_option("--steps", flags.steps);
  app.add_option("--rank", flags.rank);
  app.add_option("--mask", flags.mask);
  app.add_option("--dropout", flags.dropout);
  app.add_option("--filled", flags.filled);
  app.add_flag("--dense", flags.dense);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::trainer::Run(flags);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
