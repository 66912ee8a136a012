// Unfolds cores and lists weights for Muon.
#include "worker/trainer/optimizer/orthogonal_matrices.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::trainer {
namespace {

void AddCores(const FactorisableLayer& layer, const Factorisation& form,
              const ParameterLayout& layout,
              std::vector<OrthogonalMatrix>* matrices) {
  const int order =
      static_cast<int>(form.input_modes.size() +
                       (layer.embedding ? 0 : form.output_modes.size()));
  const int middle =
      layer.embedding ? order - 1 : static_cast<int>(form.input_modes.size());
  for (int i = 0; i < order; ++i) {
    const int at = layout.Find(absl::StrCat(layer.name, ".core.", i));
    if (at < 0 || layout[at].size == 0) continue;
    const Parameter& core = layout[at];
    const int64_t right = core.shape.back();
    const int64_t rows = i < middle ? core.size / right : core.shape.front();
    matrices->push_back({at, rows, core.size / rows});
  }
}

void AddWeights(const FactorisableLayer& layer, const ParameterLayout& layout,
                std::vector<OrthogonalMatrix>* matrices) {
  if (layer.embedding || layer.layer_class == "output") return;
  for (const char* name : {".weight", ".a", ".b"}) {
    const int at = layout.Find(layer.name + name);
    if (at < 0 || layout[at].kind != ParameterKind::kDense ||
        layout[at].size > kernels::kMostOrthogonalElements) {
      continue;
    }
    matrices->push_back({at, layout[at].shape[0], layout[at].shape[1]});
  }
}

}  // namespace

std::vector<OrthogonalMatrix> OrthogonalMatrices(
    const ModelConfig& config, const ParameterLayout& layout) {
  std::vector<OrthogonalMatrix> matrices;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    const Factorisation& form = config.layers_by_name.at(layer.key);
    if (form.dense()) {
      AddWeights(layer, layout, &matrices);
    } else {
      AddCores(layer, form, layout, &matrices);
    }
  }
  return matrices;
}

}  // namespace comera::trainer
