// Keeps the points of a front that no other point dominates.
#include "server/sweep/pareto_front.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace comera::server {

bool Covers(const v1::ParetoPoint& a, const v1::ParetoPoint& b) {
  return a.validation_loss() <= b.validation_loss() &&
         a.size_parameters() <= b.size_parameters();
}

bool Beats(const v1::ParetoPoint& a, const v1::ParetoPoint& b, double margin) {
  const double share = 1 - margin;
  return a.validation_loss() <= share * b.validation_loss() &&
         static_cast<double>(a.size_parameters()) <=
             share * static_cast<double>(b.size_parameters());
}

bool ParetoFront::Add(v1::FrontPoint added) {
  const v1::ParetoPoint& point = added.point();
  if (!std::isfinite(point.validation_loss()) || point.validation_loss() < 0 ||
      point.size_parameters() < 0) {
    return false;
  }
  // By size, so those that could cover it end at the last one no larger, and
  // that one has the least loss of them.
  const auto larger =
      std::upper_bound(points_.begin(), points_.end(), point.size_parameters(),
                       [](int64_t size, const v1::FrontPoint& other) {
                         return size < other.point().size_parameters();
                       });
  if (larger != points_.begin() && Covers(std::prev(larger)->point(), point)) {
    return false;
  }
  points_.erase(std::remove_if(points_.begin(), points_.end(),
                               [&](const v1::FrontPoint& other) {
                                 return Covers(point, other.point());
                               }),
                points_.end());
  const auto place =
      std::lower_bound(points_.begin(), points_.end(), point.size_parameters(),
                       [](const v1::FrontPoint& other, int64_t size) {
                         return other.point().size_parameters() < size;
                       });
  points_.insert(place, std::move(added));
  if (points_.size() > max_points_) Thin();
  return true;
}

void ParetoFront::Thin() {
  if (points_.size() < 3) return;
  const auto area = [this](size_t i) {
    return (points_[i - 1].point().validation_loss() -
            points_[i].point().validation_loss()) *
           static_cast<double>(points_[i + 1].point().size_parameters() -
                               points_[i].point().size_parameters());
  };
  size_t least = 1;
  for (size_t i = 2; i + 1 < points_.size(); ++i) {
    if (area(i) < area(least)) least = i;
  }
  points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(least));
}

double Hypervolume(const std::vector<v1::FrontPoint>& points,
                   const v1::ReferencePoint& reference) {
  std::vector<std::pair<int64_t, double>> inside;  // size, loss
  for (const v1::FrontPoint& point : points) {
    const v1::ParetoPoint& p = point.point();
    if (p.validation_loss() < reference.validation_loss() &&
        p.size_parameters() < reference.size_parameters()) {
      inside.push_back({p.size_parameters(), p.validation_loss()});
    }
  }
  std::sort(inside.begin(), inside.end());
  double area = 0;
  double loss = reference.validation_loss();
  for (size_t i = 0; i < inside.size(); ++i) {
    loss = std::min(loss, inside[i].second);
    const int64_t next = i + 1 < inside.size() ? inside[i + 1].first
                                               : reference.size_parameters();
    area += (reference.validation_loss() - loss) *
            static_cast<double>(next - inside[i].first);
  }
  return area;
}

v1::SweepFront MakeSweepFront(const ParetoFront& front,
                              const v1::ReferencePoint& reference) {
  v1::SweepFront result;
  for (const v1::FrontPoint& point : front.points()) {
    *result.add_points() = point;
  }
  if (reference.validation_loss() <= 0 || reference.size_parameters() <= 0) {
    return result;
  }
  *result.mutable_reference() = reference;
  result.set_hypervolume(Hypervolume(front.points(), reference));
  result.set_hypervolume_ratio(
      result.hypervolume() /
      (reference.validation_loss() *
       static_cast<double>(reference.size_parameters())));
  return result;
}

}  // namespace comera::server
