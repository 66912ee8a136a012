// The rule by which successive halving stops runs of a sweep.
#ifndef COMERA_SERVER_SWEEP_HALVING_RULE_H_
#define COMERA_SERVER_SWEEP_HALVING_RULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comera/v1/progress.pb.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::server {

// The value of the metric in a validation's figures, so that lower is better;
// nothing if they do not have it or it is not finite.
std::optional<double> HalvingValue(v1::SuccessiveHalving::Metric metric,
                                   const v1::StepMetrics& metrics);

// The number of rungs at or before the step: rung k is at first_steps times
// factor to the power of k.
int RungsReached(const v1::SuccessiveHalving& halving, int64_t step);

// Whether a run of this value at the rung is to be stopped, where the others
// that came before have these. The best 1 / factor of all go on, and the run
// always does while fewer than `factor` have come. `why` says so in a sentence.
bool IsBehind(const v1::SuccessiveHalving& halving, int rung, double value,
              std::vector<double> others, std::string* why);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_HALVING_RULE_H_
