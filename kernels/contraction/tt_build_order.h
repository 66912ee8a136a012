// The cheapest order in which to contract consecutive cores.
#ifndef COMERA_KERNELS_CONTRACTION_TT_BUILD_ORDER_H_
#define COMERA_KERNELS_CONTRACTION_TT_BUILD_ORDER_H_

#include <vector>

#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// The binary tree of products of neighbours with the fewest multiply-adds, for
// every run [first, last) of cores. Joining [first, k) and [k, last)
// takes r_first * modes of [first, k) * r_k * modes of [k, last) * r_last.
// Products of cores that are no neighbours are left out: they gain a little
// where modes are tiny and ranks full, nothing at the published layers.
//
// Immutable; thread-safe.
class TtBuildOrder {
 public:
  explicit TtBuildOrder(const TtShape& shape);

  // Multiply-adds; 0 for one core.
  double Cost(int first, int last) const { return at(first, last).cost; }
  // Where the last product joins; only for two cores or more. Of equal trees
  // the one that joins earliest.
  int Split(int first, int last) const { return at(first, last).split; }

 private:
  struct Entry {
    double cost = 0;
    int split = 0;
  };
  const Entry& at(int first, int last) const {
    return entries_[first * (order_ + 1) + last];
  }
  const int order_;
  std::vector<Entry> entries_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TT_BUILD_ORDER_H_
