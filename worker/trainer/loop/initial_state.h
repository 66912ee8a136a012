#ifndef COMERA_WORKER_TRAINER_LOOP_INITIAL_STATE_H_
#define COMERA_WORKER_TRAINER_LOOP_INITIAL_STATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/model/weights/initial_weights.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The state of a job before its first step: parameters drawn by its seed, with
// its initial weights over them if it has any, whose errors are put into
// `errors`. Plans `model`, and leaves the upload to its Load.
//
// Errors: those of LoadInitialWeights; ResourceExhausted: training does not
// fit.
absl::StatusOr<TrainingState> MakeInitialState(
    const TrainerOptions& options, const TrainingSchedule& schedule,
    TrainedModel* model, std::vector<InitialWeightsReport::LayerError>* errors);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_INITIAL_STATE_H_
