// Computes the ranking and calibration measures of click prediction.

#include "common/area_under_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace comera {
namespace {

int64_t Clicks(const std::vector<float>& labels) {
  return std::count_if(labels.begin(), labels.end(),
                       [](float label) { return label > 0.5f; });
}

}  // namespace

std::optional<double> AreaUnderCurve(const std::vector<float>& scores,
                                     const std::vector<float>& labels) {
  const int64_t clicks = Clicks(labels);
  const int64_t others = static_cast<int64_t>(labels.size()) - clicks;
  if (clicks == 0 || others == 0) return std::nullopt;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  // The sum of the clicks' ranks, which count from 1.
  double rank_sum = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    int64_t tied_clicks = 0;
    while (end < order.size() && scores[order[end]] == scores[order[begin]]) {
      tied_clicks += labels[order[end]] > 0.5f ? 1 : 0;
      ++end;
    }
    rank_sum += static_cast<double>(tied_clicks) *
                (static_cast<double>(begin + end + 1) / 2);
    begin = end;
  }
  const double c = static_cast<double>(clicks);
  return (rank_sum - c * (c + 1) / 2) / (c * static_cast<double>(others));
}

std::optional<Estimate> AreaUnderCurveEstimate(
    const std::vector<float>& scores, const std::vector<float>& labels) {
  const std::optional<double> area = AreaUnderCurve(scores, labels);
  if (!area.has_value()) return std::nullopt;
  const double a = *area;
  const auto clicks = static_cast<double>(Clicks(labels));
  const double others = static_cast<double>(labels.size()) - clicks;
  const double variance = (a * (1 - a) + (clicks - 1) * (a / (2 - a) - a * a) +
                           (others - 1) * (2 * a * a / (1 + a) - a * a)) /
                          (clicks * others);
  return Estimate{a, std::sqrt(std::max(0.0, variance))};
}

std::optional<double> NormalizedEntropy(double loss,
                                        const std::vector<float>& labels) {
  if (labels.empty()) return std::nullopt;
  const double p =
      static_cast<double>(Clicks(labels)) / static_cast<double>(labels.size());
  if (p <= 0 || p >= 1) return std::nullopt;
  return loss / -(p * std::log(p) + (1 - p) * std::log1p(-p));
}

}  // namespace comera
