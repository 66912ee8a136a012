// Keeps the models that no other one beats.
#include "worker/trainer/state/pareto_front.h"

#include <algorithm>
#include <cmath>

namespace comera::trainer {
namespace {

// True if a is at least as good as b in both figures.
bool Covers(const ParetoCandidate& a, const ParetoCandidate& b) {
  return a.validation_loss <= b.validation_loss &&
         a.size_parameters <= b.size_parameters;
}

}  // namespace

bool ParetoFront::Add(const ParetoCandidate& candidate) {
  if (!std::isfinite(candidate.validation_loss)) return false;
  for (const ParetoCandidate& point : points_) {
    if (Covers(point, candidate)) return false;
  }
  points_.erase(std::remove_if(points_.begin(), points_.end(),
                               [&](const ParetoCandidate& point) {
                                 return Covers(candidate, point);
                               }),
                points_.end());
  const auto place =
      std::lower_bound(points_.begin(), points_.end(), candidate,
                       [](const ParetoCandidate& a, const ParetoCandidate& b) {
                         return a.size_parameters < b.size_parameters;
                       });
  points_.insert(place, candidate);
  return true;
}

}  // namespace comera::trainer
