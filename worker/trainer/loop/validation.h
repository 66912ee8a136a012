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

// The figures of the first `samples` validation samples, each member taking its
// share. A collective: all members call it with the same arguments, and get the
// same result. Predictions of classes and clicks travel to all members, for the
// figures that are no means.
//
// The members compare their parameters too. Internal: they differ, so what the
// gang computes is no longer training. DataLoss: no labels at all.
//
// `communicator` may be null (one member), and so may `activity`, where batches
// are counted. The result's step is not set.
absl::StatusOr<ValidationResult> Validate(
    const TrainingData& data, int64_t samples,
    const kernels::StepState* device_state, ModelPlan& plan,
    collective::Communicator* communicator, Activity* activity = nullptr);

// The same of the whole test set.
absl::StatusOr<ValidationResult> EvaluateTestSet(
    const TrainingData& data, const kernels::StepState* device_state,
    ModelPlan& plan, collective::Communicator* communicator,
    Activity* activity = nullptr);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_VALIDATION_H_
