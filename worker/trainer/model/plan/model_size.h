// How large a model is as exported (REFERENCE.md, "Size").
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_MODEL_SIZE_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_MODEL_SIZE_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// Entries above the threshold of each inner bond of `layer`.
std::vector<int64_t> AliveRanks(const ParameterLayout& layout,
                                const TensorisedLayer& layer,
                                const float* parameters, float threshold);

// S(D) of one layer: sum over cores of mode x left rank x right rank for these
// inner ranks; 0 if one of them is 0.
int64_t TensorisedSize(const TensorisedLayer& layer,
                       const std::vector<int64_t>& inner_ranks);

// Parameters that no rank changes: biases, LayerNorm, tables, dense layers.
// What the exported model does not hold is not counted.
int64_t FixedSize(const ParameterLayout& layout);

// Floats of the exported model: FixedSize plus S(D) of every tensorised layer,
// counting only entries above the threshold. Rank entries are folded into the
// cores at export and count nothing. `parameters` is host memory.
int64_t CountedModelSize(const ParameterLayout& layout,
                         const std::vector<TensorisedLayer>& layers,
                         const float* parameters, float threshold);

// Parameters of the dense model of the same shape, which is what `method:
// dense` would train.
int64_t DenseParameterCount(const ModelConfig& config);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_MODEL_SIZE_H_
