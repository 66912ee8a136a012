// Finds the cheapest tree of neighbouring products by dynamic programming.
#include "kernels/contraction/tt_build_order.h"

namespace comera::kernels {

TtBuildOrder::TtBuildOrder(const TtShape& shape)
    : order_(shape.order()), entries_((order_ + 1) * (order_ + 1)) {
  // modes[k]: product of all modes before core k.
  std::vector<double> modes(order_ + 1, 1);
  for (int k = 0; k < order_; ++k) {
    modes[k + 1] = modes[k] * static_cast<double>(shape.Mode(k));
  }
  const auto rank = [&](int core) {
    return core == order_ ? 1.0 : static_cast<double>(shape.LeftRank(core));
  };
  for (int length = 2; length <= order_; ++length) {
    for (int first = 0; first + length <= order_; ++first) {
      const int last = first + length;
      const double outer =
          rank(first) * modes[last] / modes[first] * rank(last);
      Entry& best = entries_[first * (order_ + 1) + last];
      for (int k = first + 1; k < last; ++k) {
        const double cost = Cost(first, k) + Cost(k, last) + outer * rank(k);
        if (k == first + 1 || cost < best.cost) best = {cost, k};
      }
    }
  }
}

}  // namespace comera::kernels
