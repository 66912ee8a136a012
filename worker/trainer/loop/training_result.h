// The result of a job, out of its progress.
#ifndef COMERA_WORKER_TRAINER_LOOP_TRAINING_RESULT_H_
#define COMERA_WORKER_TRAINER_LOOP_TRAINING_RESULT_H_

#include <cstdint>
#include <optional>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The result of one target's approach; its step is that of the nearest model.
v1::TrainingResult MakeTargetResult(const TargetOutcome& outcome);

// Adds the figures of the final model on the test set.
void SetTestResult(const v1::ModelSpec& model, const TrainingData& data,
                   const ValidationResult& test, v1::TrainingResult* result);

// Sets the bytes of the model's exported file, header included, where they are
// known: those of `config`, the model that is exported. Other targets' models
// count with the same header, which differs by a few digits at most.
void SetFileSize(const ModelConfig& config, v1::TrainingResult* result);

// The result of the whole job once it is finished. `size` is the model's after
// the last step, in parameters; it counts where there were no targets.
v1::TrainingResult MakeTrainingResult(const TrainingSchedule& schedule,
                                      const TrainingProgress& progress,
                                      int64_t size);

// The result of a job that is stopped before its end: the figures of the
// nearest model, or of that in training, which has `size` parameters, and no
// outcome.
v1::TrainingResult MakeStoppedResult(const TrainingProgress& progress,
                                     const std::optional<NearestModel>& nearest,
                                     int64_t size);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_TRAINING_RESULT_H_
