#ifndef COMERA_TESTS_GOLDEN_METHOD_CHECKS_H_
#define COMERA_TESTS_GOLDEN_METHOD_CHECKS_H_

#include "absl/status/status.h"
#include "common/safetensors.h"
#include "tests/golden/device_memory.h"
#include "tests/golden/report.h"

namespace comera::golden {

// Compare the engine's optimisers and layers of the other methods with what
// their published codes did. Changes of parameters, outputs, gradients and
// moments are within 1e-5 relative. DataLoss: the file lacks what it should
// hold.

// GaLore's steps on two matrices and a vector, over five projectors.
absl::Status CheckGalore(const Safetensors& file,
                         const BackendFactory& make_backend, Report* report);
// LTE's outputs, gradients and factors over three merges.
absl::Status CheckLte(const Safetensors& file,
                      const BackendFactory& make_backend, Report* report);
// CoLA's layer and its MLP, forward and backward.
absl::Status CheckCola(const Safetensors& file,
                       const BackendFactory& make_backend, Report* report);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_METHOD_CHECKS_H_
