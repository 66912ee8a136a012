#ifndef COMERA_SERVER_SWEEP_PARETO_FRONT_H_
#define COMERA_SERVER_SWEEP_PARETO_FRONT_H_

#include <cstddef>
#include <vector>

#include "comera/v1/sweep_service.pb.h"

namespace comera::server {

// Whether `a` is at least as good as `b` in both loss and size.
bool Covers(const v1::ParetoPoint& a, const v1::ParetoPoint& b);
// Whether `a` is better than `b` in both by `margin` of b's value.
bool Beats(const v1::ParetoPoint& a, const v1::ParetoPoint& b, double margin);

// The models that no other one beats, over any number of runs: none on it is
// matched or bettered in both validation loss and size by another. Not
// thread-safe.
//
// When there are more than `max_points`, the point goes whose loss to the
// hyper-volume is least, but never one of the two ends.
class ParetoFront {
 public:
  explicit ParetoFront(size_t max_points) : max_points_(max_points) {}

  // True if the front changed: the point is on it now, those that it covers
  // have left. Of equal points the first stays. A loss that is not finite or
  // negative, or a negative size, is never on it.
  bool Add(v1::FrontPoint point);

  // By ascending size, hence descending loss.
  const std::vector<v1::FrontPoint>& points() const { return points_; }

 private:
  void Thin();

  size_t max_points_;
  std::vector<v1::FrontPoint> points_;
};

// Area that the points dominate below the reference point, in nats x
// parameters; exact. `points` need not be a front. Points that are not below
// the reference in both add nothing.
double Hypervolume(const std::vector<v1::FrontPoint>& points,
                   const v1::ReferencePoint& reference);

// The front as clients see it. `reference` may be unset (zeros).
v1::SweepFront MakeSweepFront(const ParetoFront& front,
                              const v1::ReferencePoint& reference);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_PARETO_FRONT_H_
