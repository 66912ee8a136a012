// Implements the stopping form of asynchronous successive halving.
#include "server/sweep/halving_rule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace comera::server {
namespace {

using Halving = v1::SuccessiveHalving;

// Whether the metric's higher values are the better ones.
bool IsHigherBetter(Halving::Metric metric) {
  return metric != Halving::LOSS && metric != Halving::PERPLEXITY;
}

std::optional<double> ValueOf(Halving::Metric metric,
                              const v1::StepMetrics& metrics) {
  const auto value = [](bool has, double number) {
    return has ? std::optional<double>(number) : std::nullopt;
  };
  switch (metric) {
    case Halving::ACCURACY:
      return value(metrics.has_validation_accuracy(),
                   metrics.validation_accuracy());
    case Halving::F1:
      return value(metrics.has_validation_f1(), metrics.validation_f1());
    case Halving::MCC:
      return value(metrics.has_validation_mcc(), metrics.validation_mcc());
    case Halving::AUC:
      return value(metrics.has_validation_auc(), metrics.validation_auc());
    case Halving::PERPLEXITY:
      return value(metrics.has_validation_perplexity(),
                   metrics.validation_perplexity());
    default:
      return value(metrics.has_validation_loss(), metrics.validation_loss());
  }
}

}  // namespace

std::optional<double> HalvingValue(Halving::Metric metric,
                                   const v1::StepMetrics& metrics) {
  const std::optional<double> value = ValueOf(metric, metrics);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return IsHigherBetter(metric) ? -*value : *value;
}

int RungsReached(const Halving& halving, int64_t step) {
  int rungs = 0;
  int64_t at = halving.first_steps();
  while (at > 0 && at <= step) {
    ++rungs;
    if (at > step / halving.factor()) break;
    at *= halving.factor();
  }
  return rungs;
}

bool IsBehind(const Halving& halving, int rung, double value,
              std::vector<double> others, std::string* why) {
  const size_t all = others.size() + 1;
  const size_t kept = all / static_cast<size_t>(halving.factor());
  if (kept == 0) return false;
  const auto better = static_cast<size_t>(
      std::count_if(others.begin(), others.end(),
                    [value](double other) { return other < value; }));
  if (better < kept) return false;
  int64_t step = halving.first_steps();
  for (int i = 0; i < rung; ++i) step *= halving.factor();
  const double shown = IsHigherBetter(halving.metric()) ? -value : value;
  *why = absl::StrFormat(
      "behind at step %d: %s %.4g, better in %d of the %d runs that came "
      "before; the best 1/%d go on",
      step, absl::AsciiStrToLower(Halving::Metric_Name(halving.metric())),
      shown, better, others.size(), halving.factor());
  return true;
}

}  // namespace comera::server
