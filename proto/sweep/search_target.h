// Describes what a search for the best model (`compression.method: auto`) looks
// for.
#ifndef COMERA_PROTO_SWEEP_SEARCH_TARGET_H_
#define COMERA_PROTO_SWEEP_SEARCH_TARGET_H_

#include <cstdint>
#include <string>

#include "comera/v1/job.pb.h"

namespace comera {

// The targets of a late stage, as a search compares models by them.
struct SearchTarget {
  // The metric that is compared; the loss where no quality is asked for.
  v1::LateStage::TargetQualityCase metric = v1::LateStage::kTargetLoss;
  // Whether a quality is asked for, and which.
  bool has_quality = false;
  double quality = 0;
  // The largest number of parameters; 0: none is asked for.
  int64_t parameters = 0;
  // The largest file, where that is asked for; else 0. `parameters` are then
  // those that fit without a header.
  int64_t bytes = 0;

  // Whether more of the metric is better (accuracy), or less (loss).
  bool higher_is_better() const;
  bool IsBetter(double a, double b) const {
    return higher_is_better() ? a > b : a < b;
  }
  // Whether such a model meets all that is asked for.
  bool MeetsQuality(double value) const;
  bool MeetsSize(int64_t size) const {
    return parameters == 0 || size <= parameters;
  }
  // The size, for MeetsSize, of a model whose exported file is known (0: is
  // not). One that only its header makes too large counts as too large.
  int64_t SizeOf(int64_t size, int64_t file_bytes) const;
  // How much of the target's value is missing; 0: it is met.
  double Shortfall(double value) const;
  // The metric in words: "accuracy", "loss".
  std::string Name() const;
};

SearchTarget SearchTargetOf(const v1::LateStage& late);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_TARGET_H_
