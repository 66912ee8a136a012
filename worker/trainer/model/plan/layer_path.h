// The choice of the contraction that a factorised linear layer runs.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_LAYER_PATH_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_LAYER_PATH_H_

#include <cstdint>

#include "kernels/contraction/cost_model.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// Whether the layer is factorised and all its ranks are 0.
bool IsPruned(const Factorisation& factorisation);

// The cores of a factorised layer that is no embedding.
kernels::TtShape ShapeOf(const Factorisation& factorisation);

// Chooses by the configuration, its machine numbers included, and the rows of a
// step alone: members of a job, which share the configuration, choose alike.
kernels::TtChoice ChooseLayerPath(const ModelConfig& config,
                                  const FactorisableLayer& layer,
                                  const Factorisation& factorisation,
                                  int64_t max_rows);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_LAYER_PATH_H_
