#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_PUBLISHED_CONFIG_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_PUBLISHED_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// Compares the config.json in a checkpoint's folder with the causal language
// model that is to take the weights: many of its fields (heads, angles,
// activation) show in no tensor's shape, and a model that differs there
// computes something else from the same weights. The file is the transformers
// library's of a LLaMA, Mistral or GPT-2, or an exported model's of ours; OK
// where there is none.
//
// InvalidArgument: a field differs or asks for what the architecture does not
// have; it is named with both values. DataLoss: malformed.
absl::Status CheckPublishedConfig(const std::string& folder,
                                  const ModelConfig& config);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_PUBLISHED_CONFIG_H_
