#ifndef COMERA_TESTS_GOLDEN_MODEL_CHECKS_H_
#define COMERA_TESTS_GOLDEN_MODEL_CHECKS_H_

#include "absl/status/status.h"
#include "common/safetensors.h"
#include "kernels/backend.h"
#include "tests/golden/report.h"

namespace comera::golden {

// Checks one step of the whole model: loss, logits and all gradients within
// 1e-4 relative, and the size. DataLoss: the file lacks what it should hold.
absl::Status CheckEncoderClassifier(const Safetensors& file,
                                    kernels::Backend* backend, Report* report);

// Checks two-stage training with the reference objective: the first 30 losses
// are within 1e-3 relative, sizes are equal at the start of the late stage, and
// its decisions are the recorded ones: all of them on the recorded losses and
// sizes, and those of our own run while its sizes are the recorded ones. Too
// few decisions to compare are a failure.
absl::Status CheckTrajectory(const Safetensors& file, kernels::Backend* backend,
                             Report* report);

// Checks a language model: logits, loss and all gradients of one batch and, if
// the file has steps, losses and norms of the gradients of all of them and the
// parameters after the first and the last. All are within 1e-5 relative, but
// parameters after steps within five times what the published code itself loses
// in float32, if that is more (1.7e-5 at most). The bias of keys, whose
// gradient is only rounding, is not compared after steps. DataLoss: the file
// lacks what it should hold.
absl::Status CheckDecoder(const Safetensors& file, kernels::Backend* backend,
                          Report* report);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_MODEL_CHECKS_H_
