// Compares validation figures with what a target asks for.
#include "worker/trainer/loop/quality_target.h"

#include <cmath>
#include <limits>
#include <optional>

namespace comera::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// The level of a figure that a validation does not have: all is missing.
constexpr double kWholeFigure = 1;

// Wilson's score interval, its lower end.
double WilsonBound(double share, double count, double z) {
  if (!(count > 0)) return 0;
  const double zz = z * z / count;
  return (share + zz / 2 -
          z * std::sqrt(share * (1 - share) / count + zz / (4 * count))) /
         (1 + zz);
}

double LowerBound(const std::optional<Estimate>& estimate, double z) {
  return estimate.has_value() ? estimate->value - z * estimate->error : kNan;
}

}  // namespace

double NormalQuantile(double probability) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    const double below = std::erfc(-middle / std::sqrt(2.0)) / 2;
    (below < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

QualityTarget::QualityTarget(const v1::Target& target, double confidence)
    : quality_(QualityOf(target)), confidence_(confidence) {}

bool QualityTarget::is_loss() const {
  return quality_.kind == v1::Target::kTargetLoss ||
         quality_.kind == v1::Target::TARGET_QUALITY_NOT_SET;
}

double QualityTarget::ValueOf(const ValidationResult& validation) const {
  const auto value = [](const std::optional<Estimate>& estimate) {
    return estimate.has_value() ? estimate->value : kNan;
  };
  switch (quality_.kind) {
    case v1::Target::kTargetAccuracy:
      return validation.accuracy;
    case v1::Target::kTargetF1:
      return value(validation.f1);
    case v1::Target::kTargetMcc:
      return value(validation.mcc);
    case v1::Target::kTargetAuc:
      return value(validation.auc);
    case v1::Target::kTargetPerplexity:
      return std::exp(validation.loss);
    default:
      return validation.loss;
  }
}

double QualityTarget::BoundOf(const ValidationResult& validation) const {
  if (confidence_ == 0) return ValueOf(validation);
  const double z = NormalQuantile(confidence_);
  switch (quality_.kind) {
    case v1::Target::kTargetAccuracy:
      return WilsonBound(validation.accuracy, validation.labels, z);
    case v1::Target::kTargetF1:
      return LowerBound(validation.f1, z);
    case v1::Target::kTargetMcc:
      return LowerBound(validation.mcc, z);
    case v1::Target::kTargetAuc:
      return LowerBound(validation.auc, z);
    case v1::Target::kTargetPerplexity:
      return std::exp(validation.loss + z * validation.loss_error);
    default:
      return validation.loss + z * validation.loss_error;
  }
}

bool QualityTarget::Reaches(double value) const {
  // Nothing reaches anything that is not a number.
  return LowerIsBetter(quality_.kind) ? value <= quality_.value
                                      : value >= quality_.value;
}

bool QualityTarget::MetBy(const ValidationResult& validation) const {
  return Reaches(BoundOf(validation));
}

bool QualityTarget::SeemsMetBy(const ValidationResult& validation) const {
  return Reaches(ValueOf(validation));
}

double QualityTarget::goal() const {
  if (is_loss()) return quality_.value;
  return is_perplexity() ? std::log(quality_.value) : 0;
}

double QualityTarget::LevelOf(const ValidationResult& validation) const {
  if (is_loss() || is_perplexity()) return validation.loss;
  const double value = ValueOf(validation);
  return std::isnan(value) ? kWholeFigure : quality_.value - value;
}

double QualityTarget::EstimatedLevel(const TrainingProgress& progress) const {
  const double loss = progress.EstimatedValidationLoss();
  if (is_loss() || is_perplexity()) return loss;
  return LevelOf(progress.validation) + loss - progress.validation.loss;
}

}  // namespace comera::trainer
