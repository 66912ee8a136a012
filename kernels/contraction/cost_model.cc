// Counts and compares the ways to contract a layer.
#include "kernels/contraction/cost_model.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kernels/contraction/tt_build_order.h"

namespace comera::kernels {
namespace {

double Modes(const TtShape& shape, int first, int last) {
  double product = 1;
  for (int k = first; k < last; ++k) {
    product *= static_cast<double>(shape.Mode(k));
  }
  return product;
}

double LeftRank(const TtShape& s, int core) {
  return static_cast<double>(s.LeftRank(core));
}
double RightRank(const TtShape& s, int core) {
  return static_cast<double>(s.RightRank(core));
}

// The product by which X, having absorbed the cores before `first`, absorbs
// the group [first, last): m x k times k x n.
struct Product {
  double m, n, k;
  double multiply_adds() const { return m * n * k; }
};
Product Absorb(const TtShape& s, int first, int last, double tokens) {
  const int turn = s.inputs();
  if (last < turn) {
    return {RightRank(s, last - 1), Modes(s, last, turn) * tokens,
            LeftRank(s, first) * Modes(s, first, last)};
  }
  if (first < turn) {
    return {tokens, Modes(s, turn, last) * RightRank(s, last - 1),
            LeftRank(s, first) * Modes(s, first, turn)};
  }
  return {tokens * Modes(s, turn, first),
          Modes(s, first, last) * RightRank(s, last - 1), LeftRank(s, first)};
}

double BuildSeconds(const TtShape& s, const TtBuildOrder& order, int first,
                    int last, const MachineSpeed& speed) {
  if (last - first == 1) return 0;
  const int split = order.Split(first, last);
  return BuildSeconds(s, order, first, split, speed) +
         BuildSeconds(s, order, split, last, speed) +
         GemmSeconds(speed, LeftRank(s, first) * Modes(s, first, split),
                     Modes(s, split, last) * RightRank(s, last - 1),
                     LeftRank(s, split));
}

// Seconds of one group forward.
double GroupSeconds(const TtShape& s, const TtBuildOrder& order, int first,
                    int last, double tokens, const MachineSpeed& speed) {
  const Product p = Absorb(s, first, last, tokens);
  return BuildSeconds(s, order, first, last, speed) +
         GemmSeconds(speed, p.m, p.n, p.k);
}

// Turning x and its gradient so that rows are the last axis.
double TurnSeconds(const TtShape& s, double tokens, const MachineSpeed& speed) {
  return MoveSeconds(speed, 2 * 4 * tokens * Modes(s, 0, s.inputs()));
}

// Cuts the cores into groups so that the sum of `price` over the groups is
// least; `allowed(first, last)` says which groups there are.
std::vector<int> CheapestGroups(int order,
                                const std::function<double(int, int)>& price,
                                const std::function<bool(int, int)>& allowed) {
  std::vector<double> best(order + 1, 0);
  std::vector<int> from(order + 1, -1);
  for (int last = 1; last <= order; ++last) {
    for (int first = 0; first < last; ++first) {
      if ((first > 0 && from[first] < 0) || !allowed(first, last)) continue;
      const double sum = best[first] + price(first, last);
      if (from[last] < 0 || sum < best[last]) {
        best[last] = sum;
        from[last] = first;
      }
    }
  }
  std::vector<int> ends;
  for (int last = order; last > 0; last = from[last]) ends.push_back(last);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

TtChoice MakeChoice(const TtShape& shape, std::vector<int> ends,
                    int64_t tokens) {
  TtChoice choice;
  choice.path = PathOf(shape, ends);
  choice.cost = CostOf(ends, shape, tokens);
  choice.ends = std::move(ends);
  return choice;
}

}  // namespace

const char* TtPathName(TtPath path) {
  switch (path) {
    case TtPath::kPrefixSuffix:
      return "prefix/suffix";
    case TtPath::kCoreByCore:
      return "core by core";
    case TtPath::kDense:
      return "dense";
    case TtPath::kGrouped:
      return "grouped";
  }
  return "unknown";
}

std::vector<int> GroupEnds(TtPath path, const TtShape& shape) {
  const int order = shape.order();
  if (path == TtPath::kDense) return {order};
  if (path != TtPath::kCoreByCore) return {shape.inputs(), order};
  std::vector<int> ends;
  for (int k = 1; k <= order; ++k) ends.push_back(k);
  return ends;
}

TtPath PathOf(const TtShape& shape, const std::vector<int>& ends) {
  for (TtPath path :
       {TtPath::kPrefixSuffix, TtPath::kCoreByCore, TtPath::kDense}) {
    if (ends == GroupEnds(path, shape)) return path;
  }
  return TtPath::kGrouped;
}

std::string GroupsText(const std::vector<int>& ends) {
  std::string text;
  int core = 0;
  for (int end : ends) {
    if (core > 0) text += "|";
    const bool wide = ends.back() > 9;
    for (const int first = core; core < end; ++core) {
      absl::StrAppend(&text, wide && core > first ? "," : "", core + 1);
    }
  }
  return text;
}

TtCost CostOf(const std::vector<int>& ends, const TtShape& shape,
              int64_t tokens) {
  const TtBuildOrder order(shape);
  TtCost cost;
  int first = 0;
  for (int end : ends) {
    cost.forward_once += order.Cost(first, end);
    cost.forward_tokens +=
        Absorb(shape, first, end, static_cast<double>(tokens)).multiply_adds();
    first = end;
  }
  cost.backward_once = 2 * cost.forward_once;
  cost.backward_tokens = 2 * cost.forward_tokens;
  return cost;
}

TtCost CostOf(TtPath path, const TtShape& shape, int64_t tokens) {
  return CostOf(GroupEnds(path, shape), shape, tokens);
}

TtSeconds SecondsOf(const std::vector<int>& ends, const TtShape& shape,
                    int64_t tokens, const MachineSpeed& speed) {
  const TtBuildOrder order(shape);
  const double count = static_cast<double>(tokens);
  TtSeconds seconds;
  int first = 0;
  for (int end : ends) {
    seconds.forward += GroupSeconds(shape, order, first, end, count, speed);
    first = end;
  }
  seconds.backward = 2 * seconds.forward;
  if (ends.front() < shape.inputs()) {
    seconds.forward += TurnSeconds(shape, count, speed);
    seconds.backward += TurnSeconds(shape, count, speed);
  }
  // Prefix/suffix carries the bias and its gradient in its products.
  if (PathOf(shape, ends) != TtPath::kPrefixSuffix) {
    const double y = 4 * count * static_cast<double>(shape.Cols());
    seconds.forward += MoveSeconds(speed, 2 * y);
    seconds.backward += MoveSeconds(speed, y);
  }
  return seconds;
}

TtChoice ChoosePath(const TtShape& shape, int64_t tokens) {
  const TtBuildOrder order(shape);
  const double count = static_cast<double>(tokens);
  TtChoice best =
      MakeChoice(shape,
                 CheapestGroups(
                     shape.order(),
                     [&](int first, int last) {
                       return order.Cost(first, last) +
                              Absorb(shape, first, last, count).multiply_adds();
                     },
                     [](int, int) { return true; }),
                 tokens);
  TtChoice usual =
      MakeChoice(shape, GroupEnds(TtPath::kPrefixSuffix, shape), tokens);
  return best.cost.total() < usual.cost.total() ? best : usual;
}

TtChoice ChoosePath(const TtShape& shape, int64_t tokens, int64_t outputs,
                    const MachineSpeed& speed) {
  const TtBuildOrder order(shape);
  const double count = static_cast<double>(tokens);
  const bool cut_outputs = outputs >= shape.Cols();
  std::vector<int> best = CheapestGroups(
      shape.order(),
      [&](int first, int last) {
        // Forward and twice that back.
        double sum = 3 * GroupSeconds(shape, order, first, last, count, speed);
        if (first == 0 && last < shape.inputs()) {
          sum += 2 * TurnSeconds(shape, count, speed);
        }
        return sum;
      },
      [&](int first, int) { return cut_outputs || first <= shape.inputs(); });
  std::vector<int> usual = GroupEnds(TtPath::kPrefixSuffix, shape);
  const bool clear =
      SecondsOf(best, shape, tokens, speed).total() <
      kClearGain * SecondsOf(usual, shape, tokens, speed).total();
  return MakeChoice(shape, clear ? std::move(best) : std::move(usual), tokens);
}

TtCost DenseCost(int64_t rows, int64_t cols, int64_t tokens) {
  const double product = static_cast<double>(rows) * static_cast<double>(cols) *
                         static_cast<double>(tokens);
  return {product, 0, 2 * product, 0};
}

TtSeconds DenseSeconds(int64_t rows, int64_t cols, int64_t tokens,
                       const MachineSpeed& speed) {
  const double product =
      GemmSeconds(speed, static_cast<double>(tokens), static_cast<double>(cols),
                  static_cast<double>(rows));
  const double y = 4 * static_cast<double>(tokens) * static_cast<double>(cols);
  return {product + MoveSeconds(speed, 2 * y),
          2 * product + MoveSeconds(speed, y)};
}

}  // namespace comera::kernels
