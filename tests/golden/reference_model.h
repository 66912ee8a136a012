// Reads the published encoder classifier: configuration and parameters in our
// names.
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

// Returns our name for a parameter of the published code.
std::string OurName(const std::string& reference_name);

// Returns the model of `file`, whose parameters are named prefix + reference
// name. Dropout is 0. DataLoss: metadata or tensors are missing or
// contradictory.
absl::StatusOr<trainer::ModelConfig> ReferenceConfig(const Safetensors& file,
                                                     const std::string& prefix);

// Returns one value per parameter element in our order; dense weights are
// transposed to (inputs, outputs). Every parameter of the layout must be in the
// file, and every tensor with the prefix in the layout.
absl::StatusOr<std::vector<float>> ReferenceValues(
    const Safetensors& file, const std::string& prefix,
    const trainer::ParameterLayout& layout);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_REFERENCE_MODEL_H_
