// Probabilities from logits.
#ifndef COMERA_WORKER_TRAINER_PREDICT_SOFTMAX_H_
#define COMERA_WORKER_TRAINER_PREDICT_SOFTMAX_H_

#include <algorithm>
#include <cmath>

#include "absl/types/span.h"

namespace comera::trainer {

// log sum exp of at least one number.
inline double LogSumExp(absl::Span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - most);
  }
  return most + std::log(sum);
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PREDICT_SOFTMAX_H_
