// The layers of a DLRM: bottom MLP, one table per categorical column, top MLP
// (arXiv 1906.00091).
#ifndef COMERA_WORKER_TRAINER_MODEL_CONFIG_DLRM_LAYERS_H_
#define COMERA_WORKER_TRAINER_MODEL_CONFIG_DLRM_LAYERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// The pairwise interaction of a configuration that passes CheckDlrm: how many
// vectors interact (the bottom MLP's output and one row per table), their
// width, and the width of what comes out: that output and the products of all
// pairs.
struct DlrmInteraction {
  int64_t vectors = 0;
  int64_t width = 0;
  int64_t outputs() const { return width + vectors * (vectors - 1) / 2; }
};
DlrmInteraction InteractionOf(const ModelConfig& config);

// FactorisableLayers and the shape's part of CheckModelConfig for DLRM.
std::vector<FactorisableLayer> DlrmLayers(const ModelConfig& config);
absl::Status CheckDlrm(const ModelConfig& config);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_CONFIG_DLRM_LAYERS_H_
