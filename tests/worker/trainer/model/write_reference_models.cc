// Writes small models of every family and method, as they are exported, and
// what this engine computes with them: for tests of other readers.
//
//   write_reference_models FOLDER
//
// Below FOLDER a folder per model: ExportModel's files and
// reference.safetensors with a batch and its logits.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

constexpr int64_t kBatch = 4;
constexpr float kSpread = 1.5f;

struct Case {
  std::string name;
  ModelConfig config;
  // A layer whose ranks all die; empty: none.
  std::string gone = "";
};

absl::Status AddInts(const std::string& name, std::vector<int64_t> shape,
                     const std::vector<int32_t>& values, Safetensors* file) {
  const std::vector<int64_t> wide(values.begin(), values.end());
  return file->AddInt64(name, std::move(shape), wide.data(),
                        static_cast<int64_t>(wide.size()));
}

absl::Status AddFloats(const std::string& name, std::vector<int64_t> shape,
                       const std::vector<float>& values, Safetensors* file) {
  return file->AddFloat(name, std::move(shape), values.data(),
                        static_cast<int64_t>(values.size()));
}

Batch BatchFor(const ModelConfig& config) {
  if (config.family == v1::ModelSpec::DLRM) {
    return RandomClicks(config, kBatch, 7);
  }
  Batch batch = RandomBatch(config, kBatch, 6, 0, 7);
  SetLengths({config.length, config.length - 1, 2}, &batch);
  if (config.family != v1::ModelSpec::ENCODER_CLASSIFIER) {
    SpreadLabels(config, 6, 7, &batch);
  }
  return batch;
}

absl::Status AddBatch(const ModelConfig& config, const Batch& batch,
                      Safetensors* file) {
  const int64_t labels = static_cast<int64_t>(batch.labels.size());
  RETURN_IF_ERROR(AddInts("labels", {labels}, batch.labels, file));
  if (config.family == v1::ModelSpec::DLRM) {
    RETURN_IF_ERROR(AddFloats("dense", {kBatch, config.clicks.dense_features},
                              batch.dense, file));
    return AddInts("categories", {config.clicks.tables(), kBatch},
                   batch.categories, file);
  }
  const std::vector<int64_t> shape = {kBatch, config.length};
  RETURN_IF_ERROR(AddInts("ids", shape, batch.ids, file));
  RETURN_IF_ERROR(AddInts("segments", shape, batch.segments, file));
  RETURN_IF_ERROR(AddFloats("mask", shape, batch.mask, file));
  return AddInts("label_rows", {labels}, batch.label_rows, file);
}

absl::Status Write(const Case& one, const std::string& folder) {
  TestModel model(one.config, kBatch);
  model.SpreadRanks();
  for (const Parameter& p : model.model->layout().parameters()) {
    float* const values = model.parameters.data() + p.offset;
    if (p.kind == ParameterKind::kRank) {
      // The first entry of each bond is pruned, and all of the layer's that
      // goes.
      const bool gone = !one.gone.empty() && p.name.rfind(one.gone, 0) == 0;
      std::fill_n(values, gone ? p.size : 1, 0.0f);
      continue;
    }
    if (p.shape.size() > 1) {
      // Far enough from zero for every non-linearity to bend.
      for (int64_t i = 0; i < p.size; ++i) values[i] *= kSpread;
    }
    if (p.shape.size() == 1 || absl::EndsWith(p.name, ".b")) {
      // Biases, norms and the second factors of adapters begin as constants.
      for (int64_t i = 0; i < p.size; ++i) {
        values[i] += 0.01f * static_cast<float>((i * 37) % 19 - 9);
      }
    }
  }
  const Batch batch = BatchFor(one.config);
  const std::vector<float> logits = model.Logits(batch);
  const std::string to = absl::StrCat(folder, "/", one.name);
  const double loss = model.Loss(batch);
  RETURN_IF_ERROR(
      ExportModel(one.config, model.parameters.data(), {{"loss", loss}}, to));
  Safetensors file;
  RETURN_IF_ERROR(AddBatch(one.config, batch, &file));
  RETURN_IF_ERROR(
      AddFloats("logits",
                {static_cast<int64_t>(batch.labels.size()),
                 static_cast<int64_t>(logits.size() / batch.labels.size())},
                logits, &file));
  return file.WriteAtomically(absl::StrCat(to, "/reference.safetensors"));
}

ModelConfig WithMethod(v1::ModelSpec::Family family, const LowRank& form) {
  ModelConfig config = SmallConfig(family, /*dense=*/true);
  for (auto& [key, factorisation] : config.layers_by_name) {
    if (key != "embedding") factorisation.low_rank = form;
  }
  return config;
}

// A decoder with one form in all layers of its blocks.
ModelConfig DecoderWithMethod(v1::ModelSpec::Architecture architecture,
                              const LowRank& form, bool gate_silu = true) {
  ModelConfig config = SmallDecoder(architecture, /*dense=*/true);
  config.gate_silu = gate_silu;
  for (auto& [key, factorisation] : config.layers_by_name) {
    if (absl::StartsWith(key, "layers.")) factorisation.low_rank = form;
  }
  return config;
}

ModelConfig WithDenseTokens(ModelConfig config) {
  config.layers_by_name.at("embedding").dense_tokens = {0, 5, 6, 29};
  return config;
}

ModelConfig WithSilu(ModelConfig config) {
  SetInnerSilu(&config);
  return config;
}

std::vector<Case> DecoderCases() {
  constexpr auto kLlama = v1::ModelSpec::LLAMA;
  constexpr auto kGpt2 = v1::ModelSpec::GPT2;
  using Kind = LowRank::Kind;
  const LowRank cola = {Kind::kCola, 3, 1, 1};
  const LowRank linear = {Kind::kCola, 3, 1, 1, /*linear=*/true};
  std::vector<Case> cases = {
      {"llama", SmallDecoder(kLlama)},
      {"llama_silu", WithSilu(SmallDecoder(kLlama))},
      {"llama_dense", SmallDecoder(kLlama, true)},
      {"llama_gone", SmallDecoder(kLlama), "decoder.layers.1.ffn.gate"},
      {"llama_gone_value", SmallDecoder(kLlama),
       "decoder.layers.0.attention.value"},
      {"llama_lora", DecoderWithMethod(kLlama, {Kind::kLora, 3, 1, 0.5})},
      {"llama_cola", DecoderWithMethod(kLlama, cola, /*gate_silu=*/false)},
      {"llama_cola_both", DecoderWithMethod(kLlama, cola)},
      {"llama_cola_linear", DecoderWithMethod(kLlama, linear)},
      {"gpt2", SmallDecoder(kGpt2)},
      {"gpt2_silu", WithSilu(SmallDecoder(kGpt2))},
      {"gpt2_dense", SmallDecoder(kGpt2, true)},
      {"gpt2_gone", SmallDecoder(kGpt2), "decoder.layers.0.attention.output"},
      {"gpt2_lte", DecoderWithMethod(kGpt2, {Kind::kLte, 2, 2, 0.7})},
      {"gpt2_cola", DecoderWithMethod(kGpt2, cola)},
  };
  for (const bool dense : {false, true}) {
    ModelConfig tied = SmallDecoder(kLlama, dense);
    tied.tie_output = true;
    tied.rope_theta = 500;
    SetLayers(dense, &tied);
    cases.push_back({dense ? "llama_tied_dense" : "llama_tied", tied});
    if (!dense) {
      cases.push_back({"llama_tied_dense_tokens", WithDenseTokens(tied)});
    }
  }
  return cases;
}

std::vector<Case> AllCases() {
  constexpr auto kClassifier = v1::ModelSpec::ENCODER_CLASSIFIER;
  constexpr auto kMaskedLm = v1::ModelSpec::MASKED_LM;
  using Kind = LowRank::Kind;
  std::vector<Case> cases = {
      {"classifier", SmallConfig(kClassifier)},
      {"classifier_silu", WithSilu(SmallConfig(kClassifier))},
      {"classifier_dense", SmallConfig(kClassifier, true)},
      {"classifier_gone", SmallConfig(kClassifier),
       "encoder.layers.1.ffn.down"},
      {"classifier_lora", WithMethod(kClassifier, {Kind::kLora, 3, 1, 0.5})},
      {"classifier_cola", WithMethod(kClassifier, {Kind::kCola, 5, 1, 1})},
      {"masked_lm", SmallConfig(kMaskedLm)},
      {"masked_lm_silu", WithSilu(SmallConfig(kMaskedLm))},
      {"masked_lm_dense", SmallConfig(kMaskedLm, true)},
      {"masked_lm_gone_words", SmallConfig(kMaskedLm),
       "encoder.embedding.word"},
      {"masked_lm_gone_words_dense_tokens",
       WithDenseTokens(SmallConfig(kMaskedLm)), "encoder.embedding.word"},
      {"masked_lm_galore", WithMethod(kMaskedLm, {Kind::kGalore, 4, 1, 1})},
      {"masked_lm_lte", WithMethod(kMaskedLm, {Kind::kLte, 2, 2, 0.7})},
      {"dlrm", SmallDlrm()},
      {"dlrm_dense", SmallDlrm(true)},
      {"dlrm_gone_table", SmallDlrm(), "dlrm.tables.2"},
  };
  for (const bool dense : {false, true}) {
    ModelConfig tied = SmallConfig(kMaskedLm, dense);
    tied.tie_output = true;
    tied.layers_by_name.erase("output");
    cases.push_back({dense ? "masked_lm_tied_dense" : "masked_lm_tied", tied});
    if (!dense) {
      cases.push_back({"masked_lm_tied_dense_tokens", WithDenseTokens(tied)});
    }
  }
  for (Case& one : DecoderCases()) cases.push_back(std::move(one));
  return cases;
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_reference_models FOLDER\n";
    return 2;
  }
  for (const auto& one : comera::trainer::AllCases()) {
    const absl::Status status = comera::trainer::Write(one, argv[1]);
    if (!status.ok()) {
      std::cerr << one.name << ": " << status << "\n";
      return 1;
    }
  }
  return 0;
}
