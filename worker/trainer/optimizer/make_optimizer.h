#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_MAKE_OPTIMIZER_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_MAKE_OPTIMIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

// The optimiser of the method that `spec` (valid, defaults filled in) names.
// `layout` is that of `config`, the model's configuration for the spec; both
// are copied. ResourceExhausted: scratch memory does not fit.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const v1::JobSpec& spec, const ModelConfig& config,
    const ParameterLayout& layout, kernels::Backend* backend);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_MAKE_OPTIMIZER_H_
