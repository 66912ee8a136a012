// A trained model as files that anything can read, and back.
#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_EXPORT_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_EXPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// File names below the folder of an exported model.
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kModelConfigFile[] = "config.json";

// Writes the model at its counted size: rank entries above the threshold are
// folded into the core on their left, all others and their slices are dropped.
// Each tensor has its parameter's name; TT cores are (left, mode, right), TTM
// cores (left, row mode, column mode, right), dense weights (inputs, outputs).
// LTE's heads go into the weights that they belong to (merged_heads.h).
//
// `parameters`: host memory in the layout of MakeModelLayout(config).
// `figures`: e.g. validation_loss, step; kept in config.json under "training".
// Statuses of WriteFileAtomically; InvalidArgument: a parameter is not finite.
absl::Status ExportModel(const ModelConfig& config, const float* parameters,
                         const std::map<std::string, double>& figures,
                         const std::string& directory);

// The bytes of the file kModelFile of a model with this configuration, header
// included; 0 for one with heads of LTE, which the file does not have.
int64_t ExportedBytes(const ModelConfig& config);
// The bytes of its header alone. With lower ranks it is not larger.
int64_t ExportedHeaderBytes(const ModelConfig& config);

struct ImportedModel {
  ModelConfig config;  // ranks as exported
  // In the layout of MakeModelLayout(config); every rank entry is 1.
  std::vector<float> parameters;
  std::map<std::string, double> figures;
};

// Reads what ExportModel wrote. NotFound: a file is missing; DataLoss: files
// malformed, inconsistent or of another version.
absl::StatusOr<ImportedModel> ImportModel(const std::string& directory);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_EXPORT_H_
