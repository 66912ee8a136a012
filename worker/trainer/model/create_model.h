#ifndef COMERA_WORKER_TRAINER_MODEL_CREATE_MODEL_H_
#define COMERA_WORKER_TRAINER_MODEL_CREATE_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/interface/model.h"

namespace comera::trainer {

// The model of config's family, planned for batches of up to `batch_size`
// samples, with its activations and workspace allocated. InvalidArgument:
// impossible configuration, naming the field. ResourceExhausted: activations do
// not fit.
absl::StatusOr<std::unique_ptr<Model>> CreateModel(const ModelConfig& config,
                                                   int64_t batch_size,
                                                   kernels::Backend* backend);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_CREATE_MODEL_H_
