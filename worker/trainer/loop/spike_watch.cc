// Tells a gradient that is far larger than those before it.
#include "worker/trainer/loop/spike_watch.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {

absl::StatusOr<bool> SpikeWatch::Judge(double norm) {
  const int64_t own_step = progress_.own_step();
  SpikeState& spikes = progress_.spikes;
  if (schedule_.phases().At(own_step).first_step == own_step) spikes.Restart();
  if (own_step < options_.spec.optimizer().warmup_steps() ||
      !std::isfinite(norm)) {
    return false;
  }
  const double limit = options_.spec.training().spike_factor() * spikes.mean();
  if (spikes.norms >= kLeastNorms && limit > 0 && norm > limit) {
    return Spike(norm);
  }
  spikes.sum = kDecay * spikes.sum + (1 - kDecay) * norm;
  spikes.weight = kDecay * spikes.weight + (1 - kDecay);
  ++spikes.norms;
  spikes.in_row = 0;
  return false;
}

absl::StatusOr<bool> SpikeWatch::Spike(double norm) {
  SpikeState& spikes = progress_.spikes;
  ++spikes.skipped;
  ++spikes.in_row;
  const std::string what = absl::StrFormat(
      "step %d: the norm of the gradient, %.4g, is %.4g times its running mean "
      "(training.spike_factor: %g)",
      progress_.step + 1, norm, norm / spikes.mean(),
      options_.spec.training().spike_factor());
  if (spikes.in_row < kMostInRow) {
    const std::string told = absl::StrCat(what, "; the step is left out");
    options_.log(told);
    reporter_.ReportIncident(v1::DIVERGED, told);
    return true;
  }
  spikes.Restart();
  const std::string in_row = absl::StrFormat(
      "%s; the %d steps before were left out for the same reason", what,
      kMostInRow - 1);
  if (options_.spec.training().on_divergence() != v1::TrainingSpec::IGNORE) {
    return WithFailureClass(absl::InternalError(absl::StrCat(
                                in_row,
                                ". Lower the learning rates, or let "
                                "training.on_divergence: lower_rate do it")),
                            v1::DIVERGED);
  }
  const std::string told =
      absl::StrCat(in_row, "; this one is, too, and the mean begins anew");
  options_.log(told);
  reporter_.ReportIncident(v1::DIVERGED, told);
  return true;
}

}  // namespace comera::trainer
