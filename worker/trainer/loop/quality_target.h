#ifndef COMERA_WORKER_TRAINER_LOOP_QUALITY_TARGET_H_
#define COMERA_WORKER_TRAINER_LOOP_QUALITY_TARGET_H_

#include <string>

#include "comera/v1/job.pb.h"
#include "proto/target_quality.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// The quality that a target asks for, in whichever metric, and whether a
// validation reaches it. A value type.
//
// The late stage weighs quality against size by a *level*, which it tries to
// bring down to a *goal*. For a loss and a perplexity they are losses in nats.
// All other metrics have the goal 0, and the target minus the metric's value as
// their level, so a point of accuracy counts as 0.01 nats.
class QualityTarget {
 public:
  // `confidence` is LateStage.confidence.
  QualityTarget(const v1::Target& target, double confidence);

  // The metric's name, e.g. "accuracy".
  std::string name() const { return QualityName(quality_.kind); }
  bool is_loss() const;
  // What is asked for; 0 where nothing is.
  double value() const { return quality_.value; }
  double confidence() const { return confidence_; }

  // The metric's value in a validation; NaN if it is undefined there, e.g. an
  // AUC when one class is missing.
  double ValueOf(const ValidationResult& validation) const;
  // The metric's one-sided bound at the confidence: Wilson's for an accuracy,
  // that of the normal distribution for the others. The value itself at a
  // confidence of 0.
  double BoundOf(const ValidationResult& validation) const;

  // Whether the bound reaches what is asked for.
  bool MetBy(const ValidationResult& validation) const;
  // Whether the metric's value itself, not its bound, reaches it.
  bool SeemsMetBy(const ValidationResult& validation) const;

  double goal() const;
  double LevelOf(const ValidationResult& validation) const;
  // The current level, assuming that it has changed since the last validation
  // by as much as the smoothed training loss.
  double EstimatedLevel(const TrainingProgress& progress) const;

 private:
  bool Reaches(double value) const;
  bool is_perplexity() const {
    return quality_.kind == v1::Target::kTargetPerplexity;
  }

  TargetQuality quality_;
  double confidence_ = 0;
};

// The quantile of the standard normal distribution; `probability` lies between
// 0 and 1.
double NormalQuantile(double probability);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_QUALITY_TARGET_H_
