#ifndef COMERA_COMMON_AREA_UNDER_CURVE_H_
#define COMERA_COMMON_AREA_UNDER_CURVE_H_

#include <optional>
#include <vector>

namespace comera {

// The area under the ROC curve: the share of pairs of one click and one
// non-click in which the click has the larger score, ties counting half. Exact
// (Mann-Whitney U from average ranks). Nothing if either kind is missing.
// labels[i] > 0.5 is a click; both are equally long, scores are finite.
std::optional<double> AreaUnderCurve(const std::vector<float>& scores,
                                     const std::vector<float>& labels);

// `loss` (nats a sample) over the entropy of the labels' mean: 1 is what the
// best constant prediction gives (He et al., "Practical lessons from predicting
// clicks on ads at Facebook", 2014). Nothing if only one kind of label occurs.
std::optional<double> NormalizedEntropy(double loss,
                                        const std::vector<float>& labels);

}  // namespace comera

#endif  // COMERA_COMMON_AREA_UNDER_CURVE_H_
