// Writes a model as a Hugging Face Transformers folder.
#include "worker/trainer/export/hf_export.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/json.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/trainer/data/clicks/category_tables.h"
#include "worker/trainer/data/corpus/input_format.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/export/dense_model.h"
#include "worker/trainer/export/hf_decoder.h"
#include "worker/trainer/export/hf_tokenizer.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::ordered_json;

// Rows of RoBERTa's position table that no token uses, at most: its numbers
// begin after the padding id.
constexpr int64_t kMaxFirstPosition = 4096;

struct Rename {
  absl::string_view ours, theirs;
};

// Modules of a layer, below encoder.layers.I and encoder.layer.I.
constexpr Rename kLayerModules[] = {
    {"attention.query", "attention.self.query"},
    {"attention.key", "attention.self.key"},
    {"attention.value", "attention.self.value"},
    {"attention.output", "attention.output.dense"},
    {"attention.norm", "attention.output.LayerNorm"},
    {"ffn.up", "intermediate.dense"},
    {"ffn.down", "output.dense"},
    {"ffn.norm", "output.LayerNorm"},
};
// The others; of heads, which have no prefix, "@" writes it.
constexpr Rename kBertModules[] = {
    {"head.transform", "cls.predictions.transform.dense"},
    {"head.norm", "cls.predictions.transform.LayerNorm"},
    {"head.output", "cls.predictions.decoder"},
    {"head.fc1", "@pooler.dense"},
    {"head.fc2", "classifier"},
};
constexpr Rename kRobertaModules[] = {
    {"head.transform", "lm_head.dense"}, {"head.norm", "lm_head.layer_norm"},
    {"head.output", "lm_head.decoder"},  {"head.fc1", "classifier.dense"},
    {"head.fc2", "classifier.out_proj"},
};

// What the transformers library calls `parameter`.
std::string TheirName(const std::string& parameter, bool roberta) {
  const std::string prefix = roberta ? "roberta." : "bert.";
  const size_t dot = parameter.rfind('.');
  absl::string_view module = absl::string_view(parameter).substr(0, dot);
  std::string leaf = parameter.substr(dot + 1);
  if (leaf == "gamma") leaf = "weight";
  if (leaf == "beta") leaf = "bias";
  if (parameter == "encoder.embedding.position") {
    return prefix + "embeddings.position_embeddings.weight";
  }
  if (parameter == "encoder.embedding.segment") {
    return prefix + "embeddings.token_type_embeddings.weight";
  }
  if (module == "encoder.embedding.word") {
    return prefix + "embeddings.word_embeddings.weight";
  }
  if (module == "encoder.embedding.norm") {
    return absl::StrCat(prefix, "embeddings.LayerNorm.", leaf);
  }
  if (parameter == "head.output.bias") {
    return roberta ? "lm_head.bias" : "cls.predictions.bias";
  }
  if (absl::ConsumePrefix(&module, "encoder.layers.")) {
    const size_t end = module.find('.');
    for (const Rename& rename : kLayerModules) {
      if (module.substr(end + 1) != rename.ours) continue;
      return absl::StrCat(prefix, "encoder.layer.", module.substr(0, end), ".",
                          rename.theirs, ".", leaf);
    }
  }
  for (const Rename& rename : roberta ? kRobertaModules : kBertModules) {
    if (module != rename.ours) continue;
    absl::string_view theirs = rename.theirs;
    const bool prefixed = absl::ConsumePrefix(&theirs, "@");
    return absl::StrCat(prefixed ? prefix : "", theirs, ".", leaf);
  }
  return "";
}

// Weights of linear layers are (outputs, inputs) there.
bool IsLinearWeight(const Parameter& p) {
  return absl::EndsWith(p.name, ".weight") &&
         p.name != "encoder.embedding.word.weight" && p.shape.size() == 2;
}

absl::Status AddTensor(const Parameter& p, const float* values, bool roberta,
                       int64_t first_position, Safetensors* file) {
  const std::string name = TheirName(p.name, roberta);
  if (name.empty()) {
    return absl::InternalError(absl::StrCat(p.name, ": has no name there"));
  }
  if (IsLinearWeight(p)) {
    const int64_t inputs = p.shape[0], outputs = p.shape[1];
    std::vector<float> turned(p.size);
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t o = 0; o < outputs; ++o) {
        turned[o * inputs + i] = values[i * outputs + o];
      }
    }
    return file->AddFloat(name, {outputs, inputs}, turned.data(), p.size);
  }
  if (p.name == "encoder.embedding.position" && first_position > 0) {
    const int64_t unused = first_position * p.shape[1];
    std::vector<float> moved(unused + p.size, 0.0f);
    std::copy_n(values, p.size, moved.begin() + unused);
    return file->AddFloat(name, {first_position + p.shape[0], p.shape[1]},
                          moved.data(), static_cast<int64_t>(moved.size()));
  }
  return file->AddFloat(name, p.shape, values, p.size);
}

Json ConfigOf(const ModelConfig& config, const InputFormat& format,
              const Tokenizer& tokenizer, int64_t first_position) {
  const bool roberta = !tokenizer.has_segments();
  const bool classifier = config.family == v1::ModelSpec::ENCODER_CLASSIFIER;
  const SpecialTokens& special = tokenizer.special_tokens();
  Json json = {
      {"architectures",
       {absl::StrCat(
           roberta ? "Roberta" : "Bert",
           classifier ? "ForSequenceClassification" : "ForMaskedLM")}},
      {"model_type", roberta ? "roberta" : "bert"},
      {"vocab_size", config.vocabulary},
      {"hidden_size", config.hidden},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"intermediate_size", config.ffn},
      {"hidden_act", "gelu"},
      {"hidden_dropout_prob", config.dropout},
      {"attention_probs_dropout_prob", config.dropout},
      {"max_position_embeddings", first_position + config.max_positions},
      {"position_embedding_type", "absolute"},
      {"type_vocab_size", config.segments},
      {"layer_norm_eps", config.layer_norm_epsilon},
      {"pad_token_id", special.pad},
      {"torch_dtype", "float32"}};
  if (roberta) {
    json["bos_token_id"] = special.cls;
    json["eos_token_id"] = special.sep;
  }
  if (!classifier) {
    json["tie_word_embeddings"] = config.tie_output;
    return json;
  }
  Json names = Json::object(), numbers = Json::object();
  for (int64_t c = 0; c < config.classes; ++c) {
    const std::string label = c < static_cast<int64_t>(format.labels.size())
                                  ? format.labels[c]
                                  : absl::StrCat("LABEL_", c);
    names[absl::StrCat(c)] = label;
    numbers[label] = c;
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(numbers);
  return json;
}

std::string Text(const Json& json) { return JsonText(json, 2) + "\n"; }

absl::Status WriteEncoder(const ImportedModel& model, const InputFormat& format,
                          const Tokenizer& tokenizer, const std::string& to) {
  const bool roberta = !tokenizer.has_segments();
  const int64_t first_position =
      roberta ? int64_t{tokenizer.special_tokens().pad} + 1 : 0;
  if (first_position > kMaxFirstPosition) {
    return absl::FailedPreconditionError(absl::StrCat(
        "hf: RoBERTa's positions begin after the padding id, which is ",
        first_position - 1));
  }
  ASSIGN_OR_RETURN(const ImportedModel dense, MakeDense(model));
  Safetensors file;
  const ModelLayout layout = MakeModelLayout(dense.config);
  for (const Parameter& p : layout.parameters.parameters()) {
    RETURN_IF_ERROR(AddTensor(p, dense.parameters.data() + p.offset, roberta,
                              first_position, &file));
  }
  file.metadata()["format"] = "pt";
  RETURN_IF_ERROR(MakeDirectories(to));
  RETURN_IF_ERROR(WriteHuggingFaceTokenizer(tokenizer, false, to));
  RETURN_IF_ERROR(file.WriteAtomically(absl::StrCat(to, "/", kModelFile)));
  // Written last: a reader that sees it finds the rest.
  return WriteFileAtomically(
      absl::StrCat(to, "/", kModelConfigFile),
      Text(ConfigOf(model.config, format, tokenizer, first_position)));
}

absl::Status WriteDecoder(const ImportedModel& model,
                          const Tokenizer& tokenizer, const std::string& to) {
  ASSIGN_OR_RETURN(const ImportedModel dense, MakeDense(model));
  if (dense.config.llama() && !dense.config.gate_silu) {
    return absl::FailedPreconditionError(
        "hf: a LLaMA's gate has a SiLU, this model's has none");
  }
  Safetensors file;
  RETURN_IF_ERROR(AddDecoderTensors(dense, &file));
  file.metadata()["format"] = "pt";
  RETURN_IF_ERROR(MakeDirectories(to));
  RETURN_IF_ERROR(WriteHuggingFaceTokenizer(tokenizer, true, to));
  RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(to, "/generation_config.json"),
                          GenerationConfigText(tokenizer)));
  RETURN_IF_ERROR(file.WriteAtomically(absl::StrCat(to, "/", kModelFile)));
  // Written last, as above.
  return WriteFileAtomically(absl::StrCat(to, "/", kModelConfigFile),
                             DecoderConfigText(dense.config, tokenizer));
}

}  // namespace

absl::Status CopyTokenizer(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(MakeDirectories(to));
  std::vector<std::string> names(std::begin(kTokenizerFiles),
                                 std::end(kTokenizerFiles));
  names.push_back(kInputFormatFile);
  names.push_back(CategoryTables::kFile);
  for (const std::string& name : names) {
    const absl::StatusOr<std::string> contents =
        ReadFile(absl::StrCat(from, "/", name));
    if (absl::IsNotFound(contents.status())) continue;
    RETURN_IF_ERROR(contents.status());
    RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(to, "/", name), *contents));
  }
  return absl::OkStatus();
}

absl::Status ExportToHuggingFace(const std::string& from,
                                 const std::string& to) {
  ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(from));
  if (model.config.family == v1::ModelSpec::DLRM) {
    return absl::FailedPreconditionError(
        "hf: only models of text have that form, not DLRM; --format "
        "safetensors has");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(from));
  if (tokenizer->vocabulary_size() != model.config.vocabulary) {
    return absl::DataLossError(absl::StrCat(
        from, ": the vocabulary has ", tokenizer->vocabulary_size(),
        " tokens, the model ", model.config.vocabulary));
  }
  if (model.config.causal()) return WriteDecoder(model, *tokenizer, to);
  ASSIGN_OR_RETURN(const InputFormat format, LoadInputFormat(from));
  return WriteEncoder(model, format, *tokenizer, to);
}

absl::Status ExportDense(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(from));
  ASSIGN_OR_RETURN(const ImportedModel dense, MakeDense(model));
  RETURN_IF_ERROR(CopyTokenizer(from, to));
  return ExportModel(dense.config, dense.parameters.data(), dense.figures, to);
}

}  // namespace comera::trainer
