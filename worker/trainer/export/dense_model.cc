// Multiplies every factorised layer out to a dense matrix.
#include "worker/trainer/export/dense_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/weights/layer_factors.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 33;

const Parameter& Find(const ParameterLayout& layout, const std::string& name) {
  return layout[layout.Find(name)];
}

}  // namespace

absl::StatusOr<ImportedModel> MakeDense(const ImportedModel& model) {
  ImportedModel dense;
  dense.config = model.config;
  dense.figures = model.figures;
  for (auto& [key, factorisation] : dense.config.layers_by_name) {
    factorisation = {};
  }
  const ModelLayout from = MakeModelLayout(model.config);
  const ModelLayout to = MakeModelLayout(dense.config);
  if (to.parameters.size() > kMaxParameters) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the dense model has ", to.parameters.size(), " parameters"));
  }
  dense.parameters.assign(to.parameters.size(), 0.0f);
  const float* values = model.parameters.data();
  for (const Parameter& p : to.parameters.parameters()) {
    const int same = from.parameters.Find(p.name);
    if (same < 0) continue;
    std::copy_n(values + from.parameters[same].offset, p.size,
                dense.parameters.begin() + p.offset);
  }
  for (const FactorisableLayer& layer : FactorisableLayers(model.config)) {
    const Factorisation& f = model.config.layers_by_name.at(layer.key);
    if (IsStoredWhole(f)) continue;
    LayerFactors factors = FactorsOf(model.config, from, layer, values);
    if (factors.silu) {
      return absl::FailedPreconditionError(
          absl::StrCat(layer.key,
                       ": a layer with a SiLU between its factors is no "
                       "matrix, so it has no dense form"));
    }
    const HostMatrix matrix = std::move(factors).Multiplied();
    const Parameter& weight = Find(to.parameters, layer.name + ".weight");
    std::copy(matrix.values.begin(), matrix.values.end(),
              dense.parameters.begin() + weight.offset);
  }
  return dense;
}

}  // namespace comera::trainer
