// Tells training that diverges from training that goes well, and goes back.
#include "worker/trainer/loop/divergence_guard.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

// The distance from the baseline, as a share of it, that is more than the noise
// of a loss that has not yet left the baseline: upwards for a loss that has
// diverged, downwards for the one before it.
constexpr double kMargin = 0.01;
// A job that has not learned anything after this share of its steps, and so
// many validations after the warm-up, is worth a warning.
constexpr int64_t kSharesOfSteps = 4;
constexpr int64_t kFewValidations = 3;

}  // namespace

DivergenceGuard::DivergenceGuard(const TrainerOptions* options,
                                 const TrainingSchedule* schedule,
                                 TrainingProgress* progress,
                                 TrainedModel* model, StepEngine* engine,
                                 StepReporter* reporter)
    : options_(*options),
      schedule_(*schedule),
      progress_(*progress),
      model_(*model),
      engine_(*engine),
      reporter_(*reporter) {}

absl::Status DivergenceGuard::Check(const TrainingState& state) const {
  if (!state.good.has_value()) return absl::OkStatus();
  if (state.good->stage == v1::LATE && !schedule_.has_late_stage()) {
    return absl::DataLossError(
        "checkpoint: the last good state is of a stage that the job has not");
  }
  return model_.CheckFits("the last good state", *state.good);
}

bool DivergenceGuard::Shrinking() const {
  return progress_.stage == v1::LATE &&
         schedule_.ApproachSteps(progress_) > 0 &&
         engine_.last().objective.size >
             static_cast<double>(progress_.target_size);
}

bool DivergenceGuard::LowestCounts() const {
  const int64_t lowest_step = progress_.stability.lowest_step;
  if (lowest_step < 0) return false;
  const int64_t approach = schedule_.ApproachSteps(progress_);
  return progress_.stage != v1::LATE || approach == 0 ||
         lowest_step > progress_.step - approach;
}

absl::Status DivergenceGuard::KeepIfBest() {
  if (!lowers_rate()) return absl::OkStatus();
  const ValidationResult& validation = progress_.validation;
  const double loss = validation.step == progress_.step
                          ? validation.loss
                          : std::numeric_limits<double>::infinity();
  const bool small_enough = progress_.stage != v1::LATE || !Shrinking();
  const auto ended = static_cast<int64_t>(progress_.outcomes.size());
  if (good_.has_value() && good_->stage == progress_.stage &&
      good_->ended_targets == ended &&
      (good_->small_enough > small_enough ||
       (good_->small_enough == small_enough && good_->kept_loss <= loss))) {
    return absl::OkStatus();
  }
  GoodState good;
  good.loss = progress_.loss;
  good.validation = validation;
  good.validation_gap = progress_.validation_gap;
  good.stage = progress_.stage;
  good.step = progress_.step;
  good.ended_targets = ended;
  good.small_enough = small_enough;
  good.kept_loss = loss;
  good.size = std::llround(engine_.last().objective.size);
  good.control = model_.size_control();
  RETURN_IF_ERROR(model_.Download(&good));
  good_ = std::move(good);
  return absl::OkStatus();
}

absl::Status DivergenceGuard::Judge() {
  const double loss = progress_.validation.loss;
  const double baseline = options_.data->baseline_loss();
  // Labels that are all alike have none to fall below.
  if (!(baseline > 0)) return KeepIfBest();
  Stability& stability = progress_.stability;
  const bool warm =
      progress_.own_step() > options_.spec.optimizer().warmup_steps();
  if (warm) ++stability.validations;
  if (loss < baseline) {
    stability.learned = true;
    if (!Shrinking() && (!LowestCounts() || loss < stability.lowest_loss)) {
      stability.lowest_loss = loss;
      stability.lowest_step = progress_.step;
    }
    return KeepIfBest();
  }
  if (warm && !Shrinking() && LowestCounts() &&
      stability.lowest_loss < (1 - kMargin) * baseline &&
      loss > (1 + kMargin) * baseline && progress_.loss.value() > baseline &&
      options_.spec.training().on_divergence() != v1::TrainingSpec::IGNORE) {
    return Diverged();
  }
  WarnIfNothingLearned();
  return KeepIfBest();
}

absl::Status DivergenceGuard::Diverged() const {
  const Stability& stability = progress_.stability;
  return WithFailureClass(
      absl::InternalError(absl::StrFormat(
          "step %d: the validation loss, %.4f, is above the baseline's, %.4f "
          "(the best constant prediction); it was %.4f at step %d. Lower the "
          "learning rates, or let training.on_divergence: lower_rate do it",
          progress_.step, progress_.validation.loss,
          options_.data->baseline_loss(), stability.lowest_loss,
          stability.lowest_step)),
      v1::DIVERGED);
}

void DivergenceGuard::WarnIfNothingLearned() {
  Stability& stability = progress_.stability;
  if (stability.learned || stability.warned ||
      stability.validations < kFewValidations ||
      progress_.own_step() < schedule_.LastOwnStep() / kSharesOfSteps) {
    return;
  }
  stability.warned = true;
  const std::string what = absl::StrFormat(
      "step %d: nothing was learned so far: the validation loss, %.4f, never "
      "was below the baseline's, %.4f (the best constant prediction). Other "
      "learning rates may help; training goes on",
      progress_.step, progress_.validation.loss,
      options_.data->baseline_loss());
  options_.log(what);
  reporter_.ReportIncident(v1::DIVERGED, what);
}

absl::Status DivergenceGuard::GoBack(const absl::Status& failure) {
  const v1::FailureClass failure_class = FailureClassOf(failure);
  const bool diverged =
      failure_class == v1::DIVERGED || failure_class == v1::NAN_LOSS;
  Stability& stability = progress_.stability;
  if (!diverged || !lowers_rate() || !good_.has_value() ||
      good_->ended_targets != static_cast<int64_t>(progress_.outcomes.size()) ||
      stability.lowered >= kMostReturns) {
    return failure;
  }
  RETURN_IF_ERROR(engine_.Discard());
  const GoodState& good = *good_;
  stability.rate_factor /= 2;
  ++stability.lowered;
  const std::string what = absl::StrFormat(
      "%s; going on with the state of step %d and learning rates times %g "
      "(%d of %d times)",
      failure.message(), good.step, stability.rate_factor, stability.lowered,
      kMostReturns);
  options_.log(what);
  reporter_.ReportIncident(v1::DIVERGED, what);
  RETURN_IF_ERROR(
      model_.Restore(good, schedule_.phases().At(progress_.own_step())));
  model_.set_size_control(good.control);
  progress_.stage = good.stage;
  progress_.loss = good.loss;
  progress_.validation = good.validation;
  progress_.validation_gap = good.validation_gap;
  progress_.spikes.Restart();
  RETURN_IF_ERROR(engine_.Rebind());
  engine_.set_last_size(static_cast<double>(good.size));
  return reporter_.ReportRanks();
}

}  // namespace comera::trainer
