#ifndef COMERA_TESTS_GOLDEN_LAYER_CHECKS_H_
#define COMERA_TESTS_GOLDEN_LAYER_CHECKS_H_

#include <memory>

#include "absl/status/status.h"
#include "common/safetensors.h"
#include "kernels/backend.h"
#include "tests/golden/report.h"

namespace comera::golden {

// Checks that the output and all gradients are within 1e-5 relative. DataLoss:
// the file lacks what its kind needs.
absl::Status CheckTtLinear(const Safetensors& file,
                           std::unique_ptr<kernels::Backend> backend,
                           Report* report);
absl::Status CheckTtmEmbedding(const Safetensors& file,
                               std::unique_ptr<kernels::Backend> backend,
                               Report* report);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_LAYER_CHECKS_H_
