#ifndef COMERA_WORKER_TRAINER_LOOP_VALIDATION_H_
#define COMERA_WORKER_TRAINER_LOOP_VALIDATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/planning/model_plan.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// Mean loss and share of correct predictions over the first `samples`
// validation samples, each rank taking its share. A collective: all ranks call
// it with the same arguments, and get the same result.
//
// On the way the ranks compare their parameters. Internal: they differ, so what
// the gang computes is no longer training. DataLoss: no labels at all.
// Of click logs, every rank's scores travel to all, for the AUC.
// communicator may be null (one rank), activity, where batches are counted,
// too; the result's step is not set.
absl::StatusOr<ValidationResult> Validate(
    const TrainingData& data, int64_t samples,
    const kernels::StepState* device_state, ModelPlan& plan,
    collective::Communicator* communicator, Activity* activity = nullptr);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_VALIDATION_H_
