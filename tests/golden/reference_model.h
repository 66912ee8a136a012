// The published encoder classifier in our terms: configuration and parameters.
#ifndef COMERA_TESTS_GOLDEN_REFERENCE_MODEL_H_
#define COMERA_TESTS_GOLDEN_REFERENCE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::golden {

// Our name of the published code's parameter.
std::string OurName(const std::string& reference_name);

// The model of `file`, whose parameters are named prefix + reference name.
// Dropout is 0. DataLoss: metadata or tensors missing or contradictory.
absl::StatusOr<trainer::ModelConfig> ReferenceConfig(const Safetensors& file,
                                                     const std::string& prefix);

// One value per parameter element in our order; dense weights are turned to
// (inputs, outputs). Every parameter of the layout must be in the file and
// every tensor with the prefix in the layout.
absl::StatusOr<std::vector<float>> ReferenceValues(
    const Safetensors& file, const std::string& prefix,
    const trainer::ParameterLayout& layout);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_REFERENCE_MODEL_H_
