// Writes a trained model at its counted size, and reads it.
#include "worker/trainer/model/weights/export.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/config_json.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/compaction.h"
#include "worker/trainer/model/plan/model_size.h"
#include "worker/trainer/model/weights/merged_heads.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "comera-model";
constexpr int kVersion = 3;

// The first version whose readers know what the model has: version 2 brought
// the SiLU between the halves of a layer, 3 the dense rows of a table.
int VersionOf(const ModelConfig& config) {
  int version = 1;
  for (const auto& [key, factorisation] : config.layers_by_name) {
    if (!factorisation.dense_tokens.empty()) return 3;
    if (factorisation.silu) version = 2;
  }
  return version;
}

// Multiplies every core of `layer` by the rank entries on its right.
void FoldRanks(const ParameterLayout& layout, const TensorisedLayer& layer,
               float* parameters) {
  for (size_t b = 0; b < layer.bonds.size(); ++b) {
    const Parameter& core = layout[layer.cores[b]];
    const Parameter& bond = layout[layer.bonds[b]];
    for (int64_t i = 0; i < core.size; ++i) {
      parameters[core.offset + i] *= parameters[bond.offset + i % bond.size];
    }
  }
}

// The parameters that the file has.
int64_t ExportedParameters(const ParameterLayout& layout) {
  int64_t size = 0;
  for (const Parameter& p : layout.parameters()) {
    if (p.kind != ParameterKind::kRank) size += p.size;
  }
  return size;
}

}  // namespace

int64_t ExportedHeaderBytes(const ModelConfig& config) {
  std::map<std::string, const Parameter*> tensors;
  const ModelLayout layout = MakeModelLayout(config);
  for (const Parameter& p : layout.parameters.parameters()) {
    if (p.kind != ParameterKind::kRank) tensors[p.name] = &p;
  }
  Safetensors::Header header;
  header.metadata["format"] = kFormat;
  for (const auto& [name, p] : tensors) {
    header.tensors.push_back({name, Safetensors::Type::kFloat32, p->shape,
                              p->size * int64_t{sizeof(float)}});
  }
  return static_cast<int64_t>(header.Serialize().size());
}

int64_t ExportedBytes(const ModelConfig& config) {
  if (HasHeads(config)) return 0;
  return ExportedHeaderBytes(config) +
         ExportedParameters(MakeModelLayout(config).parameters) *
             int64_t{sizeof(float)};
}

absl::Status ExportModel(const ModelConfig& config, const float* parameters,
                         const std::map<std::string, double>& figures,
                         const std::string& directory) {
  if (HasHeads(config)) {
    const MergedModel merged = MergeHeads(config, parameters);
    return ExportModel(merged.config, merged.parameters.data(), figures,
                       directory);
  }
  const CompactionPlan plan = PlanCompaction(config, parameters);
  const ParameterLayout& layout = plan.new_layout.parameters;
  std::vector<float> compact(layout.size());
  CompactBuffer(plan, parameters, compact.data());
  for (const TensorisedLayer& layer : plan.new_layout.layers) {
    FoldRanks(layout, layer, compact.data());
  }
  Safetensors file;
  for (const Parameter& p : layout.parameters()) {
    if (p.kind == ParameterKind::kRank) continue;
    const float* values = compact.data() + p.offset;
    if (!std::all_of(values, values + p.size,
                     [](float x) { return std::isfinite(x); })) {
      return absl::InvalidArgumentError(
          absl::StrCat(p.name, ": holds values that are not finite"));
    }
    RETURN_IF_ERROR(file.AddFloat(p.name, p.shape, values, p.size));
  }
  file.metadata()["format"] = kFormat;
  const Json json = {{"format", kFormat},
                     {"version", VersionOf(plan.config)},
                     {"model", ModelConfigToJson(plan.config)},
                     {"size_parameters", ExportedParameters(layout)},
                     {"size_bytes", ExportedBytes(plan.config)},
                     {"training", figures}};
  RETURN_IF_ERROR(MakeDirectories(directory));
  RETURN_IF_ERROR(
      file.WriteAtomically(absl::StrCat(directory, "/", kModelFile)));
  return WriteFileAtomically(absl::StrCat(directory, "/", kModelConfigFile),
                             JsonText(json, 2) + "\n");
}

absl::StatusOr<ImportedModel> ImportModel(const std::string& directory) {
  const std::string config_path =
      absl::StrCat(directory, "/", kModelConfigFile);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(config_path));
  const Json json = ParseJson(text);
  const Json version =
      json.is_object() ? json.value("version", Json()) : Json();
  if (!json.is_object() || json.value("format", Json()) != kFormat ||
      !version.is_number_integer() || version < 1 || version > kVersion) {
    return absl::DataLossError(absl::StrCat(config_path, ": not a ", kFormat,
                                            " of version 1 to ", kVersion));
  }
  ImportedModel model;
  ASSIGN_OR_RETURN(model.config,
                   ModelConfigFromJson(json.value("model", Json())));
  const Json figures = json.value("training", Json::object());
  if (figures.is_object()) {
    for (const auto& [key, value] : figures.items()) {
      if (value.is_number()) model.figures[key] = value.get<double>();
    }
  }

  const std::string path = absl::StrCat(directory, "/", kModelFile);
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Read(path));
  const ModelLayout layout = MakeModelLayout(model.config);
  // Shapes are compared before memory is taken for what config.json claims.
  size_t expected = 0;
  for (const Parameter& p : layout.parameters.parameters()) {
    if (p.kind == ParameterKind::kRank) continue;
    ++expected;
    const auto found = file.tensors().find(p.name);
    if (found == file.tensors().end()) {
      return absl::DataLossError(
          absl::StrCat(path, ": tensor ", p.name, " is missing"));
    }
    if (found->second.shape != p.shape ||
        found->second.type != Safetensors::Type::kFloat32) {
      return absl::DataLossError(absl::StrCat(
          path, ": tensor ", p.name, " has another shape or type than in ",
          kModelConfigFile));
    }
  }
  if (file.tensors().size() != expected) {
    return absl::DataLossError(
        absl::StrCat(path, ": tensors that the model does not have"));
  }
  model.parameters.resize(layout.parameters.size());
  for (const Parameter& p : layout.parameters.parameters()) {
    if (p.size == 0) continue;  // a core of a pruned layer
    float* to = model.parameters.data() + p.offset;
    if (p.kind == ParameterKind::kRank) {
      std::fill_n(to, p.size, 1.0f);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<float> values, file.GetFloat(p.name));
    if (!std::all_of(values.begin(), values.end(),
                     [](float x) { return std::isfinite(x); })) {
      return absl::DataLossError(absl::StrCat(
          path, ": tensor ", p.name, " holds values that are not finite"));
    }
    std::copy(values.begin(), values.end(), to);
  }
  return model;
}

}  // namespace comera::trainer
