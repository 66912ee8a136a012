#ifndef COMERA_WORKER_TRAINER_LOOP_QUALITY_TARGET_H_
#define COMERA_WORKER_TRAINER_LOOP_QUALITY_TARGET_H_

#include <string>

#include "comera/v1/job.pb.h"
#include "proto/target_quality.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// What a target asks of the validation set, whichever figure that is. A value
// type.
//
// The late stage weighs quality against size by a *level*, which it tries to
// bring down to a *goal*. For a loss and a perplexity they are losses in nats.
// All other figures have the goal 0, and a level that says how much of the
// figure is missing: a point of accuracy counts as 0.01 nats.
class QualityTarget {
 public:
  // `confidence` is that of LateStage.
  QualityTarget(const v1::Target& target, double confidence);

  // The figure's name, e.g. "accuracy".
  std::string name() const { return QualityName(quality_.kind); }
  bool is_loss() const;
  // What is asked for; 0 where nothing is.
  double value() const { return quality_.value; }
  double confidence() const { return confidence_; }

  // The figure of a validation; NaN where it has none, as an AUC has where one
  // class is missing.
  double ValueOf(const ValidationResult& validation) const;
  // The figure's one-sided bound at the confidence: Wilson's for an accuracy,
  // that of the normal distribution for the others. The figure itself at a
  // confidence of 0.
  double BoundOf(const ValidationResult& validation) const;

  // Whether the bound reaches what is asked for.
  bool MetBy(const ValidationResult& validation) const;
  // Whether the figure does.
  bool SeemsMetBy(const ValidationResult& validation) const;

  double goal() const;
  double LevelOf(const ValidationResult& validation) const;
  // The level by now, if since the last validation it has changed as the
  // smoothed training loss has.
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
