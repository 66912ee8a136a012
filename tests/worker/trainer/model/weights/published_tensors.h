// Checkpoints of causal language models as others publish them, for tests.
#ifndef COMERA_TESTS_WORKER_TRAINER_MODEL_WEIGHTS_PUBLISHED_TENSORS_H_
#define COMERA_TESTS_WORKER_TRAINER_MODEL_WEIGHTS_PUBLISHED_TENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

struct NamedTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, NamedTensor>;

// Values at random for every parameter of a model.
std::vector<float> SomeValues(const ModelConfig& config);

// The parameters of a dense decoder under the transformers library's names,
// written from those and not from the trainer's own table. `prefix`: "model.",
// "transformer." or none.
Tensors Published(const ModelConfig& config, const std::vector<float>& values,
                  const std::string& prefix);

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_MODEL_WEIGHTS_PUBLISHED_TENSORS_H_
