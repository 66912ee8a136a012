#ifndef COMERA_TESTS_GOLDEN_MODEL_CHECKS_H_
#define COMERA_TESTS_GOLDEN_MODEL_CHECKS_H_

#include "absl/status/status.h"
#include "common/safetensors.h"
#include "kernels/backend.h"
#include "tests/golden/report.h"

namespace comera::golden {

// One step of the whole model: loss, logits and all gradients within 1e-4
// relative, and the size. DataLoss: the file does not hold what it should.
absl::Status CheckEncoderClassifier(const Safetensors& file,
                                    kernels::Backend* backend, Report* report);

// Two-stage training with the reference objective: the first 30 losses within
// 1e-3 relative, every late-stage branch equal until the losses differ by more
// than 1e-3, sizes equal at the start of the late stage.
absl::Status CheckTrajectory(const Safetensors& file, kernels::Backend* backend,
                             Report* report);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_MODEL_CHECKS_H_
