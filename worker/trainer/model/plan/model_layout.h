// The parameters of a model at its current ranks.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_MODEL_LAYOUT_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_MODEL_LAYOUT_H_

#include <vector>

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// A function of the configuration alone: every member, every device and every
// reader of a checkpoint finds the same.
struct ModelLayout {
  ParameterLayout parameters;
  // Layers in tensor-train form, in the order of FactorisableLayers.
  std::vector<TensorisedLayer> layers;
};

// Adds one layer: cores and bonds, or the dense weight, or what is trained in
// its place; then, if it has one, the bias.
void AddLayer(const FactorisableLayer& layer,
              const Factorisation& factorisation, ModelLayout* layout);

// What the layer holds and does not train, if anything: a weight, and LTE's
// factors at the last merge. After all that is trained.
void AddFrozen(const FactorisableLayer& layer,
               const Factorisation& factorisation, ModelLayout* layout);

// `config` must pass CheckModelConfig.
ModelLayout MakeModelLayout(const ModelConfig& config);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_MODEL_LAYOUT_H_
