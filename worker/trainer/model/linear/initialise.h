#ifndef COMERA_WORKER_TRAINER_MODEL_LINEAR_INITIALISE_H_
#define COMERA_WORKER_TRAINER_MODEL_LINEAR_INITIALISE_H_

#include <cstdint>

#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// Initial parameters in the layout of MakeModelLayout(config), host memory
// (REFERENCE.md, "Initialisation"). Each value is a function of (seed,
// parameter name, index), so that it depends on no other layer's shape.
void InitialiseParameters(const ModelConfig& config, uint64_t seed,
                          float* parameters);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_LINEAR_INITIALISE_H_
