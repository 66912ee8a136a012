#ifndef COMERA_WORKER_TRAINER_EXPORT_DENSE_MODEL_H_
#define COMERA_WORKER_TRAINER_EXPORT_DENSE_MODEL_H_

#include "absl/status/statusor.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {

// The same model without factors: every layer's cores, or its frozen weight
// and adapters, multiplied out to one matrix. A pruned layer has zeros.
// Sums are in float, as the engine's.
//
// FailedPrecondition: a layer has a SiLU between its factors, so that it is no
// matrix. ResourceExhausted: more than 2^33 parameters.
absl::StatusOr<ImportedModel> MakeDense(const ImportedModel& model);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_DENSE_MODEL_H_
