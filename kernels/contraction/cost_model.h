// What the ways to contract a layer cost, and the cheapest.
#ifndef COMERA_KERNELS_CONTRACTION_COST_MODEL_H_
#define COMERA_KERNELS_CONTRACTION_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/contraction/tt_shape.h"
#include "kernels/machine_speed.h"

namespace comera::kernels {

// How a TT linear layer Y = X W (X: tokens x N) is contracted: its cores are
// cut into groups of neighbours, each contracted once per step in its cheapest
// order (TtBuildOrder), and X absorbs the groups from left to right. Named are
// the groupings with a meaning of their own.
enum class TtPath {
  // T = X A, Y = T B through the bond between inputs and outputs (TtChain):
  // the low-rank form of W.
  kPrefixSuffix,
  // X absorbs one core after the other; nothing is shared among tokens.
  kCoreByCore,
  // One group: W is built once per step and applied like a dense layer.
  kDense,
  // Any other grouping.
  kGrouped,
};
const char* TtPathName(TtPath path);

// Ends of the groups, ascending up to order(); not of kGrouped.
std::vector<int> GroupEnds(TtPath path, const TtShape& shape);
TtPath PathOf(const TtShape& shape, const std::vector<int>& ends);
// Cores counted from 1 with bars between the groups, e.g. "123|456".
std::string GroupsText(const std::vector<int>& ends);

// Multiply-adds (exact up to 2^53), split into what grows with the tokens and
// what is done once per step. Backward takes every product of forward back by
// two of the same size: one for each factor's gradient. So the cheapest way
// forward is the cheapest way back.
struct TtCost {
  double forward_tokens = 0;
  double forward_once = 0;
  double backward_tokens = 0;
  double backward_once = 0;
  double forward() const { return forward_tokens + forward_once; }
  double backward() const { return backward_tokens + backward_once; }
  double total() const { return forward() + backward(); }
};
TtCost CostOf(TtPath path, const TtShape& shape, int64_t tokens);
TtCost CostOf(const std::vector<int>& ends, const TtShape& shape,
              int64_t tokens);

// Seconds of the same work, with the passes over X and Y that a grouping needs
// beside its products.
struct TtSeconds {
  double forward = 0;
  double backward = 0;
  double total() const { return forward + backward; }
};
TtSeconds SecondsOf(const std::vector<int>& ends, const TtShape& shape,
                    int64_t tokens, const MachineSpeed& speed);

struct TtChoice {
  TtPath path = TtPath::kPrefixSuffix;
  std::vector<int> ends;
  TtCost cost;
};
// The grouping with the least multiply-adds for a step over `tokens`;
// prefix/suffix if it is one of the cheapest.
TtChoice ChoosePath(const TtShape& shape, int64_t tokens);
// The fastest grouping by SecondsOf; prefix/suffix, which lets a block stay in
// rank space, unless another takes less than kClearGain of its time. With
// fewer `outputs` than columns the output modes stay in one group (see
// TtContraction). A function of its arguments alone: equal on every rank.
inline constexpr double kClearGain = 0.95;
TtChoice ChoosePath(const TtShape& shape, int64_t tokens, int64_t outputs,
                    const MachineSpeed& speed);

// A dense layer of N x M: forward N M per token, backward twice that.
TtCost DenseCost(int64_t rows, int64_t cols, int64_t tokens);
TtSeconds DenseSeconds(int64_t rows, int64_t cols, int64_t tokens,
                       const MachineSpeed& speed);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_COST_MODEL_H_
