// Makes the result that is reported when a job, or one of its targets, ends.
#include "worker/trainer/loop/training_result.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/model_family.h"
#include "worker/trainer/loop/progress_events.h"
#include "worker/trainer/loop/quality_target.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {
namespace {

v1::Outcome OutcomeOf(bool met) {
  return met ? v1::TARGET_MET : v1::TARGET_MISSED;
}

// How many targets were met.
int AddTargets(const TrainingSchedule& schedule,
               const TrainingProgress& progress, v1::TrainingResult* result) {
  int met = 0;
  for (size_t i = 0; i < progress.outcomes.size(); ++i) {
    const TargetOutcome& outcome = progress.outcomes[i];
    met += outcome.met ? 1 : 0;
    v1::TargetResult& target = *result->add_targets();
    const QualityTarget quality = schedule.QualityOfTarget(i);
    if (quality.is_loss()) {
      target.set_target_loss(quality.value());
    } else if (const double value = quality.ValueOf(outcome.validation);
               std::isfinite(value)) {
      target.set_validation_quality(value);
    }
    target.set_target_size_parameters(outcome.target_size);
    target.set_outcome(OutcomeOf(outcome.met));
    target.set_steps(outcome.steps);
    target.set_validation_loss(outcome.validation.loss);
    target.set_size_parameters(outcome.size);
    target.set_size_bytes(outcome.size * kBytesPerParameter);
  }
  return met;
}

// "95%", "99.5%".
std::string PercentText(double share) {
  return absl::StrCat(std::round(share * 1e6) / 1e4, "%");
}

std::string ReasonOfOne(const TargetOutcome& outcome,
                        const QualityTarget& quality) {
  std::string bound;
  if (quality.confidence() > 0) {
    bound =
        absl::StrFormat(", %s bound %.4f", PercentText(quality.confidence()),
                        quality.BoundOf(outcome.validation));
  }
  return absl::StrFormat(
      "%s: validation %s %.4f (target %.4f%s), %d parameters (target %d), "
      "at step %d",
      outcome.met ? "both targets met"
                  : "step budget spent, nearest model kept",
      quality.name(), quality.ValueOf(outcome.validation), quality.value(),
      bound, outcome.size, outcome.target_size, outcome.validation.step);
}

}  // namespace

v1::TrainingResult MakeTargetResult(const TargetOutcome& outcome) {
  v1::TrainingResult result;
  result.set_outcome(OutcomeOf(outcome.met));
  result.set_step(outcome.validation.step);
  result.set_validation_loss(outcome.validation.loss);
  result.set_validation_accuracy(outcome.validation.accuracy);
  SetFigures(outcome.validation, &result);
  result.set_size_parameters(outcome.size);
  result.set_size_bytes(outcome.size * kBytesPerParameter);
  return result;
}

void SetFileSize(const ModelConfig& config, v1::TrainingResult* result) {
  const int64_t bytes = ExportedBytes(config);
  if (bytes == 0) return;
  result->set_size_bytes(bytes);
  const int64_t header = ExportedHeaderBytes(config);
  for (v1::TargetResult& target : *result->mutable_targets()) {
    target.set_size_bytes(target.size_parameters() * kBytesPerParameter +
                          header);
  }
}

void SetTestResult(const v1::ModelSpec& model, const TrainingData& data,
                   const ValidationResult& test, v1::TrainingResult* result) {
  v1::TestResult& figures = *result->mutable_test();
  figures.set_samples(data.test_samples());
  figures.set_loss(test.loss);
  figures.set_accuracy(test.accuracy);
  if (test.f1) figures.set_f1(test.f1->value);
  if (test.mcc) figures.set_mcc(test.mcc->value);
  if (test.auc) figures.set_auc(test.auc->value);
  if (!IsLanguageModel(model)) return;
  figures.set_perplexity(std::exp(test.loss));
  const std::optional<double> bytes = data.test_bytes_per_token();
  if (bytes) figures.set_bits_per_byte(BitsPerByte(test.loss, *bytes));
}

v1::TrainingResult MakeTrainingResult(const TrainingSchedule& schedule,
                                      const TrainingProgress& progress,
                                      int64_t size) {
  TargetOutcome last;
  if (!progress.outcomes.empty()) {
    last = progress.outcomes.back();
  } else {
    last.validation = progress.validation;
    last.size = size;
  }
  v1::TrainingResult result = MakeTargetResult(last);
  result.set_step(progress.step);
  result.set_energy_joules(progress.energy_joules);
  const int met = AddTargets(schedule, progress, &result);
  const int targets = static_cast<int>(schedule.targets().size());
  if (!schedule.has_late_stage()) {
    result.set_outcome(v1::COMPLETED);
    result.set_reason(progress.early_steps < 0
                          ? absl::StrCat("all ", progress.step, " steps done")
                          : absl::StrCat(progress.label_tokens, " tokens in ",
                                         progress.step,
                                         " steps (training.max_tokens)"));
  } else if (targets == 1) {
    result.set_reason(ReasonOfOne(last, schedule.QualityOfTarget(0)));
  } else {
    result.set_outcome(OutcomeOf(met == targets));
    result.set_reason(absl::StrFormat(
        "%d of %d targets met after %d steps%s", met, targets, progress.step,
        met == targets ? "" : ", nearest models kept"));
  }
  for (const ParetoCandidate& point : progress.front.points()) {
    *result.add_pareto_front() = ToProto(point);
  }
  return result;
}

v1::TrainingResult MakeStoppedResult(const TrainingProgress& progress,
                                     const std::optional<NearestModel>& nearest,
                                     int64_t size) {
  TargetOutcome best;
  best.validation = nearest ? nearest->validation : progress.validation;
  best.size = nearest ? nearest->size : size;
  v1::TrainingResult result = MakeTargetResult(best);
  result.set_outcome(v1::OUTCOME_UNSPECIFIED);
  result.set_step(progress.step);
  result.set_energy_joules(progress.energy_joules);
  result.set_reason(absl::StrCat("stopped at step ", progress.step,
                                 " with the best model so far"));
  for (const ParetoCandidate& point : progress.front.points()) {
    *result.add_pareto_front() = ToProto(point);
  }
  return result;
}

}  // namespace comera::trainer
