// ModelConfig as JSON: the config.json of an exported model, and what a
// checkpoint says about the ranks it was taken at.
#ifndef COMERA_WORKER_TRAINER_MODEL_CONFIG_CONFIG_JSON_H_
#define COMERA_WORKER_TRAINER_MODEL_CONFIG_CONFIG_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

nlohmann::json ModelConfigToJson(const ModelConfig& config);

// DataLoss names the key that is missing, of the wrong type or impossible; what
// is returned passes CheckModelConfig.
absl::StatusOr<ModelConfig> ModelConfigFromJson(const nlohmann::json& json);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_CONFIG_CONFIG_JSON_H_
