// Measures how fast a language model continues texts, one at a time and several
// together, under any method, and how long they wait for each other's prompts.
// The weights are those at the start of training.
//   bazel run -c opt //tests/bench:generation -- --method=comera --json
// With --pieces=32,64,128 --prompt=1536 --set data.max_length=2048 it tells how
// long texts wait while a long prompt comes in pieces.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bench_device.h"
#include "tests/bench/bench_job.h"
#include "worker/trainer/generate/cached_decoder.h"
#include "worker/trainer/generate/sampler.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/linear/initialise.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/process/make_backend.h"

namespace comera::bench {
namespace {

using trainer::CachedDecoder;
using trainer::NewToken;

struct Flags {
  std::string model = "llama_60m", method;
  std::string device = "cpu", precision;
  std::vector<int64_t> batches = {1, 8};
  int64_t prompt = 32, tokens = 128;
  std::vector<int64_t> pieces;
  int threads = 0;
  std::vector<std::string> overrides;
  bool json = false;
};

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int32_t PromptToken(int64_t text, int64_t position, int64_t vocabulary) {
  return static_cast<int32_t>((text * 7919 + position * 104729) % vocabulary);
}

struct Figures {
  double prompt_seconds = 0, token_seconds = 0;
};

// Continues `batch` texts greedily; the first token is of the prompt's step.
absl::StatusOr<Figures> Measure(const Flags& flags, int64_t batch,
                                CachedDecoder* decoder) {
  const int64_t vocabulary = decoder->vocabulary();
  trainer::Sampler sampler({/*temperature=*/0});
  std::vector<NewToken> tokens;
  std::vector<float> logits;
  const auto choose = [&]() -> absl::Status {
    std::vector<NewToken> next;
    for (const NewToken& token : tokens) {
      if (!token.logits) continue;
      const float* const row =
          logits.data() + static_cast<int64_t>(next.size()) * vocabulary;
      ASSIGN_OR_RETURN(const int32_t id,
                       sampler.Choose(absl::MakeConstSpan(row, vocabulary), 0));
      next.push_back({token.slot, token.position + 1, id, true});
    }
    tokens = std::move(next);
    return absl::OkStatus();
  };
  Figures figures;
  double start = Seconds();
  std::vector<NewToken> first;
  for (int64_t text = 0; text < batch; ++text) {
    tokens.clear();
    for (int64_t i = 0; i < flags.prompt; ++i) {
      tokens.push_back(
          {text, i, PromptToken(text, i, vocabulary), i + 1 == flags.prompt});
    }
    RETURN_IF_ERROR(decoder->Step(tokens, &logits));
    RETURN_IF_ERROR(choose());
    first.push_back(tokens[0]);
  }
  tokens = first;
  figures.prompt_seconds = Seconds() - start;
  start = Seconds();
  for (int64_t i = 1; i < flags.tokens; ++i) {
    RETURN_IF_ERROR(decoder->Step(tokens, &logits));
    RETURN_IF_ERROR(choose());
  }
  figures.token_seconds =
      (Seconds() - start) / static_cast<double>((flags.tokens - 1) * batch);
  return figures;
}

void Print(const nlohmann::ordered_json& json, bool as_json) {
  if (as_json) {
    std::cout << json.dump() << std::endl;
    return;
  }
  for (const auto& [key, value] : json.items()) {
    std::cout << absl::StrFormat("%-20s %s\n", key, value.dump());
  }
}

// Texts in all slots but one grow by a token each step, while the prompt of the
// last one comes in pieces of so many tokens. What a text waits for its next
// token is the length of a step.
absl::Status MeasurePiece(const Flags& flags, int64_t piece,
                          CachedDecoder* decoder) {
  const int64_t last = decoder->slots() - 1;
  const int64_t vocabulary = decoder->vocabulary();
  std::vector<float> logits;
  std::vector<double> waits;
  int64_t grown = 0;
  for (int64_t seen = 0; seen < flags.prompt; ++grown) {
    std::vector<NewToken> tokens;
    for (int64_t text = 0; text < last; ++text) {
      const int64_t place = grown % decoder->length();
      tokens.push_back(
          {text, place, PromptToken(text, place, vocabulary), true});
    }
    const int64_t end = std::min(flags.prompt, seen + piece);
    for (; seen < end; ++seen) {
      tokens.push_back({last, seen, PromptToken(last, seen, vocabulary),
                        seen + 1 == flags.prompt});
    }
    const double start = Seconds();
    RETURN_IF_ERROR(decoder->Step(tokens, &logits));
    waits.push_back(Seconds() - start);
  }
  double sum = 0;
  for (const double wait : waits) sum += wait;
  std::sort(waits.begin(), waits.end());
  Print({{"model", flags.model},
         {"method", flags.method},
         {"device", flags.device},
         {"threads", flags.threads},
         {"texts", last},
         {"prompt_tokens", flags.prompt},
         {"piece", piece},
         {"median_wait_seconds", waits[waits.size() / 2]},
         {"longest_wait_seconds", waits.back()},
         {"prompt_seconds", sum}},
        flags.json);
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const BenchJob job,
                   MakeBenchJob(flags.model, flags.method, 1, flags.overrides));
  ASSIGN_OR_RETURN(trainer::ModelConfig config,
                   trainer::MakeModelConfig(job.spec, job.vocabulary));
  if (!config.causal()) {
    return absl::InvalidArgumentError("the model is no causal_lm");
  }
  if (flags.prompt + flags.tokens > config.length) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d tokens exceed the model's length of %d",
                        flags.prompt + flags.tokens, config.length));
  }
  trainer::BackendOptions device;
  device.device = ParseDevice(flags.device);
  device.precision = flags.precision.empty() ? job.spec.training().precision()
                                             : ParsePrecision(flags.precision);
  device.threads = flags.threads;
  ASSIGN_OR_RETURN(const auto backend, trainer::MakeBackend(device));
  const int64_t size = trainer::MakeModelLayout(config).parameters.size();
  const auto bytes = size * int64_t{sizeof(float)};
  std::vector<float> values(size);
  trainer::InitialiseParameters(config, /*seed=*/1, values.data());
  kernels::Arena arena(backend.get());
  const kernels::Arena::Piece piece = arena.Reserve("parameters", bytes);
  RETURN_IF_ERROR(arena.Commit());
  RETURN_IF_ERROR(
      backend->CopyToDevice(arena.Address(piece), values.data(), bytes));
  RETURN_IF_ERROR(backend->Synchronize());
  CachedDecoder::Options options;
  options.chunk = 128;
  for (const int64_t tokens : flags.pieces) {
    options.chunk = std::max(options.chunk, tokens);
  }
  ASSIGN_OR_RETURN(const auto decoder,
                   CachedDecoder::Create(config, arena.Floats(piece), options,
                                         backend.get()));
  for (const int64_t tokens : flags.pieces) {
    RETURN_IF_ERROR(MeasurePiece(flags, tokens, decoder.get()));
  }
  if (!flags.pieces.empty()) return absl::OkStatus();
  for (const int64_t batch : flags.batches) {
    if (batch < 1 || batch > decoder->slots()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%d texts at once are not in 1 to %d", batch, decoder->slots()));
    }
    // Once to warm up.
    RETURN_IF_ERROR(Measure(flags, batch, decoder.get()).status());
    ASSIGN_OR_RETURN(const Figures figures,
                     Measure(flags, batch, decoder.get()));
    Print(
        {
            {"model", flags.model},
            {"method",
             v1::CompressionSpec::Method_Name(job.spec.compression().method())},
            {"device", flags.device},
            {"threads", flags.threads},
            {"batch", batch},
            {"prompt_tokens", flags.prompt},
            {"generated_tokens", flags.tokens},
            {"parameters", size},
            {"prompt_seconds", figures.prompt_seconds},
            {"tokens_per_second", 1 / figures.token_seconds},
        },
        flags.json);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) {
  comera::bench::Flags flags;
  CLI::App app("Tokens a second of a language model that continues texts");
  app.add_option("--model", flags.model, "llama_60m, or a job file")
      ->capture_default_str();
  app.add_option("--method", flags.method,
                 "comera, dense or cola; default: the job's");
  comera::bench::AddDeviceFlags(&app, &flags.device, &flags.precision);
  app.add_option("--batches", flags.batches, "texts at the same time")
      ->capture_default_str()
      ->delimiter(',');
  app.add_option("--prompt", flags.prompt, "tokens of each prompt")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--pieces", flags.pieces,
                 "instead: how long seven texts wait for their next token "
                 "while a prompt comes in pieces of so many tokens")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--tokens", flags.tokens, "tokens to generate")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 16));
  app.add_option("--threads", flags.threads, "0: all cores")
      ->capture_default_str();
  app.add_option("--set", flags.overrides, "field.path=value of the job");
  app.add_flag("--json", flags.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::bench::Run(flags);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
