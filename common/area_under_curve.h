#ifndef COMERA_COMMON_AREA_UNDER_CURVE_H_
#define COMERA_COMMON_AREA_UNDER_CURVE_H_

#include <optional>
#include <vector>

#include "common/estimate.h"

namespace comera {

// The area under the ROC curve: the share of pairs of a click and a non-click
// in which the click has the larger score, ties counting half. It is exact
// (Mann-Whitney U from average ranks). Returns nothing if either kind is
// missing. A label above 0.5 is a click; both vectors are equally long, scores
// are finite.
std::optional<double> AreaUnderCurve(const std::vector<float>& scores,
                                     const std::vector<float>& labels);

// The same with its standard error after Hanley and McNeil ("The meaning and
// use of the area under a receiver operating characteristic (ROC) curve",
// 1982).
std::optional<Estimate> AreaUnderCurveEstimate(
    const std::vector<float>& scores, const std::vector<float>& labels);

// `loss` (nats a sample) divided by the entropy of the labels' mean, so that
// the best constant prediction gives 1 (He et al., "Practical lessons from
// predicting clicks on ads at Facebook", 2014). Returns nothing if only one
// kind of label occurs.
std::optional<double> NormalizedEntropy(double loss,
                                        const std::vector<float>& labels);

}  // namespace comera

#endif  // COMERA_COMMON_AREA_UNDER_CURVE_H_
