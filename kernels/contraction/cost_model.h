// Multiply-add counts of the ways to contract a layer, and the cheapest.
#ifndef COMERA_KERNELS_CONTRACTION_COST_MODEL_H_
#define COMERA_KERNELS_CONTRACTION_COST_MODEL_H_

#include <cstdint>

#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// How a TT linear layer Y = X W (X: tokens x N) is contracted.
enum class TtPath {
  // T = X A, Y = T B through the bond between inputs and outputs; A and B are
  // built once per step (TtChain).
  kPrefixSuffix,
  // X absorbs one core after the other; nothing is shared among tokens.
  kCoreByCore,
  // W = A B is built once per step and applied like a dense layer.
  kDense,
};
const char* TtPathName(TtPath path);

// Multiply-adds (exact up to 2^53), split into what grows with the tokens and
// what is done once per step.
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

struct TtChoice {
  TtPath path = TtPath::kPrefixSuffix;
  TtCost cost;
};
// The path with the least total() for a step over `tokens`; the first of equal
// ones in the order of TtPath.
TtChoice ChoosePath(const TtShape& shape, int64_t tokens);

// A dense layer of N x M: forward N M per token, backward twice that.
TtCost DenseCost(int64_t rows, int64_t cols, int64_t tokens);

// Lookup of unique rows in a tensor-train table.
struct TtmCost {
  double build = 0;          // both tables, once per step
  double per_row = 0;        // with the tables
  double per_row_chain = 0;  // contracting the chain anew for every row
};
TtmCost CostOf(const TtmShape& shape);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_COST_MODEL_H_
