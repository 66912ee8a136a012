#ifndef COMERA_WORKER_TRAINER_LOOP_COMPACTED_MODEL_H_
#define COMERA_WORKER_TRAINER_LOOP_COMPACTED_MODEL_H_

#include <vector>

#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// A model without its pruned rank entries, as it is exported. A value type.
struct CompactedModel {
  ModelConfig config;
  std::vector<float> parameters;  // laid out by config
};

// `parameters` are laid out by `config`.
CompactedModel CompactModel(const ModelConfig& config,
                            const std::vector<float>& parameters);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_COMPACTED_MODEL_H_
