// Maps the published code's parameter names and layouts to ours.

#include "tests/golden/reference_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden_file.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::golden {
namespace {

using trainer::FactorisableLayer;
using trainer::Factorisation;
using trainer::ModelConfig;
using Json = nlohmann::json;

// Pairs of name parts, theirs and ours; longer ones come before their own
// parts.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"embedding.word_emb", "embedding.word"},
    {"embedding.position_emb.weight", "embedding.position"},
    {"embedding.token_type_emb.weight", "embedding.segment"},
    {"encoder_blocks.", "layers."},
    {"slf_attn.w_qs.layer", "attention.query"},
    {"slf_attn.w_ks.layer", "attention.key"},
    {"slf_attn.w_vs.layer", "attention.value"},
    {"slf_attn.fc.layer", "attention.output"},
    {"slf_attn.", "attention."},
    {"pos_ffn.fc_1.layer", "ffn.up"},
    {"pos_ffn.fc_2.layer", "ffn.down"},
    {"pos_ffn.", "ffn."},
    {"layer_norm.weight", "norm.gamma"},
    {"layer_norm.bias", "norm.beta"},
    {"classifier.fc1.layer", "head.fc1"},
    {"classifier.fc2.layer", "head.fc2"},
    {"tensor.factors.", "core."},
    {"tensor.rank_parameters.", "rank."},
};

// Derives the factorisation of one layer from the shapes of its cores.
absl::StatusOr<Factorisation> FromCores(const Safetensors& file,
                                        const std::string& prefix,
                                        const FactorisableLayer& layer) {
  std::vector<std::vector<int64_t>> cores;
  const std::string start = layer.name + ".core.";
  for (const auto& [name, tensor] : file.tensors()) {
    if (!absl::StartsWith(name, prefix)) continue;
    const std::string ours = OurName(name.substr(prefix.size()));
    if (!absl::StartsWith(ours, start)) continue;
    int index = 0;
    if (!absl::SimpleAtoi(ours.substr(start.size()), &index) || index < 0 ||
        index >= 64) {
      return absl::DataLossError(name + ": index of a core");
    }
    if (cores.size() <= static_cast<size_t>(index)) cores.resize(index + 1);
    cores[index] = tensor.shape;
  }
  Factorisation f;
  int64_t inputs = 1;
  for (const std::vector<int64_t>& shape : cores) {
    if (shape.size() != (layer.embedding ? 4 : 3)) {
      return absl::DataLossError(start + ": unexpected shape of a core");
    }
    f.ranks.push_back(shape.back());
    if (layer.embedding) {
      f.input_modes.push_back(shape[1]);
      f.output_modes.push_back(shape[2]);
    } else if (inputs < layer.inputs) {
      inputs *= shape[1];
      f.input_modes.push_back(shape[1]);
    } else {
      f.output_modes.push_back(shape[1]);
    }
  }
  if (cores.empty()) return absl::DataLossError(start + ": no cores");
  f.ranks.pop_back();
  return f;
}

}  // namespace

std::string OurName(const std::string& reference_name) {
  std::string name = reference_name;
  for (const auto& [theirs, ours] : kNames) {
    name = absl::StrReplaceAll(name, {{theirs, ours}});
  }
  return name;
}

absl::StatusOr<ModelConfig> ReferenceConfig(const Safetensors& file,
                                            const std::string& prefix) {
  const auto metadata = file.metadata().find("config");
  const Json json = metadata == file.metadata().end()
                        ? Json()
                        : Json::parse(metadata->second, nullptr, false);
  if (!json.is_object()) return absl::DataLossError("metadata config");
  ModelConfig config;
  config.family = v1::ModelSpec::ENCODER_CLASSIFIER;
  for (const auto& [key, field] :
       std::initializer_list<std::pair<const char*, int64_t*>>{
           {"layers", &config.layers},
           {"d", &config.hidden},
           {"h", &config.ffn},
           {"heads", &config.heads},
           {"pos", &config.max_positions}}) {
    if (!json.contains(key) || !json[key].is_number_integer()) {
      return absl::DataLossError(absl::StrCat("metadata config: ", key));
    }
    *field = json[key].get<int64_t>();
  }
  if (config.layers < 1 || config.layers > 1024) {
    return absl::DataLossError("metadata config: layers");
  }
  ASSIGN_OR_RETURN(const auto ids, file.GetShape("ids"));
  if (ids.size() < 2) return absl::DataLossError("ids: unexpected shape");
  config.length = ids.back();
  ASSIGN_OR_RETURN(
      const auto segments,
      file.GetShape(prefix + "encoder.embedding.token_type_emb.weight"));
  ASSIGN_OR_RETURN(const auto fc2,
                   file.GetShape(prefix + "classifier.fc2.layer.weight"));
  if (segments.empty() || fc2.empty()) {
    return absl::DataLossError("tables: unexpected shape");
  }
  config.segments = segments[0];
  config.classes = fc2[0];
  config.dropout = 0;
  if (file.metadata().count("threshold") > 0) {
    ASSIGN_OR_RETURN(const double threshold, MetadataNumber(file, "threshold"));
    config.rank_threshold = static_cast<float>(threshold);
  }
  if (file.metadata().count("layernorm_eps") > 0) {
    ASSIGN_OR_RETURN(const double eps, MetadataNumber(file, "layernorm_eps"));
    config.layer_norm_epsilon = static_cast<float>(eps);
  }
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    ASSIGN_OR_RETURN(Factorisation f, FromCores(file, prefix, layer));
    if (layer.embedding) {
      config.vocabulary = 1;
      for (int64_t mode : f.input_modes) config.vocabulary *= mode;
    }
    config.layers_by_name[layer.key] = std::move(f);
  }
  RETURN_IF_ERROR(CheckModelConfig(config));
  return config;
}

absl::StatusOr<std::vector<float>> ReferenceValues(
    const Safetensors& file, const std::string& prefix,
    const trainer::ParameterLayout& layout) {
  std::vector<float> values(layout.size());
  size_t found = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    if (!absl::StartsWith(name, prefix)) continue;
    const int index = layout.Find(OurName(name.substr(prefix.size())));
    if (index < 0) return absl::DataLossError(name + ": no such parameter");
    const trainer::Parameter& p = layout[index];
    ASSIGN_OR_RETURN(const std::vector<float> data, file.GetFloat(name));
    if (static_cast<int64_t>(data.size()) != p.size) {
      return absl::DataLossError(name + ": wrong size");
    }
    float* to = values.data() + p.offset;
    if (absl::EndsWith(p.name, ".weight")) {
      // The published weight is (outputs, inputs).
      const int64_t inputs = p.shape[0], outputs = p.shape[1];
      for (int64_t i = 0; i < inputs; ++i) {
        for (int64_t o = 0; o < outputs; ++o) {
          to[i * outputs + o] = data[o * inputs + i];
        }
      }
    } else {
      std::copy(data.begin(), data.end(), to);
    }
    ++found;
  }
  if (found != layout.parameters().size()) {
    return absl::DataLossError(absl::StrCat(prefix, "*: ", found,
                                            " parameters, expected ",
                                            layout.parameters().size()));
  }
  return values;
}

}  // namespace comera::golden
