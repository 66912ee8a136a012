// Evaluates the model in training on samples of its validation and test sets.
#include "worker/trainer/loop/model_validation.h"

#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "worker/trainer/loop/validation.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

absl::StatusOr<ValidationResult> Checked(
    absl::StatusOr<ValidationResult> result, const char* what, int64_t step) {
  RETURN_IF_ERROR(result.status());
  result->step = step;
  if (std::isfinite(result->loss)) return result;
  return WithFailureClass(NotFiniteError(step, what, result->loss),
                          v1::DIVERGED);
}

}  // namespace

absl::Status ModelValidation::Prepare(const char* activity) {
  options_.Describe(activity);
  return engine_.PlanFor(schedule_.phases().last());
}

absl::StatusOr<ValidationResult> ModelValidation::OnValidationSet(
    int64_t step, int64_t samples) {
  RETURN_IF_ERROR(Prepare("validating"));
  return Checked(
      Validate(*options_.data, samples, engine_.device_state(), *model_.plan(),
               options_.communicator, options_.activity),
      "validation loss", step);
}

absl::StatusOr<ValidationResult> ModelValidation::OnSample(int64_t step) {
  return OnValidationSet(step, options_.ValidationSamples());
}

absl::StatusOr<ValidationResult> ModelValidation::OnWholeSet(int64_t step) {
  return OnValidationSet(step, options_.data->validation_samples());
}

absl::StatusOr<ValidationResult> ModelValidation::OnTestSet(int64_t step) {
  RETURN_IF_ERROR(Prepare("testing"));
  return Checked(
      EvaluateTestSet(*options_.data, engine_.device_state(), *model_.plan(),
                      options_.communicator, options_.activity),
      "test loss", step);
}

}  // namespace comera::trainer
