#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_MERGED_HEADS_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_MERGED_HEADS_H_

#include <vector>

#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// A model whose LTE layers have become ordinary dense ones.
struct MergedModel {
  ModelConfig config;
  // In the layout of MakeModelLayout(config).
  std::vector<float> parameters;
};

// Whether any layer of `config` has heads to merge.
bool HasHeads(const ModelConfig& config);

// Adds to every frozen weight what its heads have learnt since the last merge,
//   W += scale / heads sum_n (A_n B_n - A'_n B'_n),
// so that the model computes what all heads together do. `parameters` is host
// memory in the layout of MakeModelLayout(config).
MergedModel MergeHeads(const ModelConfig& config, const float* parameters);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_MERGED_HEADS_H_
