// Writes a model with its factors as a folder of the transformers library.
#include "worker/trainer/export/hf_factors.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/export/hf_decoder.h"
#include "worker/trainer/export/hf_tokenizer.h"
#include "worker/trainer/export/huggingface/comera_layers.h"
#include "worker/trainer/export/huggingface/configuration_comera.h"
#include "worker/trainer/export/huggingface/modeling_comera.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::ordered_json;

struct Module {
  const char* file;
  std::string_view text;
};

// The library's class for a family, and ours.
struct Class {
  const char *automatic, *own;
};

Class ClassOf(const ModelConfig& config) {
  switch (config.family) {
    case v1::ModelSpec::CAUSAL_LM:
      return {"AutoModelForCausalLM", "ComeraForCausalLM"};
    case v1::ModelSpec::MASKED_LM:
      return {"AutoModelForMaskedLM", "ComeraForMaskedLM"};
    default:
      return {"AutoModelForSequenceClassification",
              "ComeraForSequenceClassification"};
  }
}

// The special tokens that generation and padding ask the configuration for.
void AddTokens(const ModelConfig& config, const Tokenizer& tokenizer,
               Json* json) {
  const SpecialTokens& special = tokenizer.special_tokens();
  (*json)["pad_token_id"] = special.pad;
  if (!config.causal()) return;
  const std::optional<int32_t> end = tokenizer.end_of_text();
  (*json)["bos_token_id"] = FirstToken(tokenizer);
  (*json)["eos_token_id"] = end ? Json(*end) : Json(nullptr);
}

void AddLabels(const ModelConfig& config, const InputFormat& format,
               Json* json) {
  Json names = Json::object(), numbers = Json::object();
  for (int64_t c = 0; c < config.classes; ++c) {
    const std::string label = c < static_cast<int64_t>(format.labels.size())
                                  ? format.labels[c]
                                  : absl::StrCat("LABEL_", c);
    names[absl::StrCat(c)] = label;
    numbers[label] = c;
  }
  (*json)["id2label"] = std::move(names);
  (*json)["label2id"] = std::move(numbers);
}

// config.json: our description of the model as it is, under "comera".
absl::StatusOr<Json> ConfigOf(const std::string& from,
                              const ModelConfig& config,
                              const Tokenizer& tokenizer) {
  const std::string path = absl::StrCat(from, "/", kModelConfigFile);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const Json ours = ParseOrderedJson(text);
  if (!ours.is_object() || !ours.contains("model")) {
    return absl::DataLossError(absl::StrCat(path, ": no model is described"));
  }
  const Class names = ClassOf(config);
  Json json = {
      {"architectures", {names.own}},
      {"model_type", "comera"},
      {"auto_map",
       {{"AutoConfig", "configuration_comera.ComeraConfig"},
        {names.automatic, absl::StrCat("modeling_comera.", names.own)}}},
      {"torch_dtype", "float32"},
      {"tie_word_embeddings", false}};
  AddTokens(config, tokenizer, &json);
  if (config.family == v1::ModelSpec::ENCODER_CLASSIFIER) {
    ASSIGN_OR_RETURN(const InputFormat format, LoadInputFormat(from));
    AddLabels(config, format, &json);
  }
  json["comera"] = ours["model"];
  return json;
}

}  // namespace

absl::Status ExportFactorsToHuggingFace(const std::string& from,
                                        const std::string& to) {
  ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(from));
  if (model.config.family == v1::ModelSpec::DLRM) {
    return absl::FailedPreconditionError(
        "hf-factors: only models of text have that form, not DLRM");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(from));
  if (tokenizer->vocabulary_size() != model.config.vocabulary) {
    return absl::DataLossError(absl::StrCat(
        from, ": the vocabulary has ", tokenizer->vocabulary_size(),
        " tokens, the model ", model.config.vocabulary));
  }
  ASSIGN_OR_RETURN(const Json config, ConfigOf(from, model.config, *tokenizer));
  ASSIGN_OR_RETURN(Safetensors tensors,
                   Safetensors::Read(absl::StrCat(from, "/", kModelFile)));
  tensors.metadata() = {{"format", "pt"}};
  const bool causal = model.config.causal();
  RETURN_IF_ERROR(MakeDirectories(to));
  RETURN_IF_ERROR(WriteHuggingFaceTokenizer(*tokenizer, causal, to));
  if (causal) {
    RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(to, "/generation_config.json"),
                            GenerationConfigText(*tokenizer)));
  }
  for (const Module& module :
       {Module{"comera_layers.py", ComeraLayersModule()},
        Module{"configuration_comera.py", ConfigurationComeraModule()},
        Module{"modeling_comera.py", ModelingComeraModule()}}) {
    RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(to, "/", module.file), module.text));
  }
  RETURN_IF_ERROR(tensors.WriteAtomically(absl::StrCat(to, "/", kModelFile)));
  // Written last: a reader that sees it finds the rest.
  return WriteFileAtomically(absl::StrCat(to, "/", kModelConfigFile),
                             JsonText(config, 2) + "\n");
}

}  // namespace comera::trainer
