#ifndef COMERA_WORKER_TRAINER_LOOP_MODEL_VALIDATION_H_
#define COMERA_WORKER_TRAINER_LOOP_MODEL_VALIDATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/trainer/loop/step_engine.h"
#include "worker/trainer/loop/trained_model.h"
#include "worker/trainer/loop/trainer_options.h"
#include "worker/trainer/loop/training_schedule.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// Evaluates the model in training on held-out samples. All members call the
// same functions at the same time, and get the same results; the objects behind
// the pointers must outlive this. Not thread-safe.
//
// Errors: those of Validate; NAN_LOSS names the step, where the loss is not
// finite.
class ModelValidation {
 public:
  ModelValidation(const TrainerOptions* options,
                  const TrainingSchedule* schedule, TrainedModel* model,
                  StepEngine* engine)
      : options_(*options),
        schedule_(*schedule),
        model_(*model),
        engine_(*engine) {}

  // Whether the sample is all that there is.
  bool SampleIsWhole() const {
    return options_.ValidationSamples() == options_.data->validation_samples();
  }
  // The figures of training.validation_samples, for progress.
  absl::StatusOr<ValidationResult> OnSample(int64_t step);
  // The figures of the whole validation set, for decisions and results.
  absl::StatusOr<ValidationResult> OnWholeSet(int64_t step);
  // The figures of the test set, which has samples.
  absl::StatusOr<ValidationResult> OnTestSet(int64_t step);

 private:
  absl::StatusOr<ValidationResult> OnValidationSet(int64_t step,
                                                   int64_t samples);
  // Plans the model for the batches that it is evaluated on.
  absl::Status Prepare(const char* activity);

  const TrainerOptions& options_;
  const TrainingSchedule& schedule_;
  TrainedModel& model_;
  StepEngine& engine_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_MODEL_VALIDATION_H_
