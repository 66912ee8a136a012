#include "kernels/contraction/cost_model.h"

namespace comera::kernels {
namespace {

// Building A left to right and B right to left (TtChain).
double BuildCost(const TtShape& s) {
  double cost = 0, modes = 1;
  for (int k = 1; k < s.inputs(); ++k) {
    modes *= static_cast<double>(s.Mode(k - 1));
    cost += modes * static_cast<double>(s.CoreSize(k));
  }
  modes = 1;
  for (int k = s.order() - 2; k >= s.inputs(); --k) {
    modes *= static_cast<double>(s.Mode(k + 1));
    cost += modes * static_cast<double>(s.CoreSize(k));
  }
  return cost;
}

TtCost PrefixSuffixCost(const TtShape& s, double tokens) {
  const double once = BuildCost(s);
  const double per_token = static_cast<double>(s.MiddleRank()) *
                           static_cast<double>(s.Rows() + s.Cols());
  // Backward: U = gY B^T, gX = U A^T, gB = T^T gY, gA = X^T U; then two
  // products per step of the build.
  return {tokens * per_token, once, 2 * tokens * per_token, 2 * once};
}

TtCost CoreByCoreCost(const TtShape& s, double tokens) {
  double per_token = 0;
  // Input core k meets (n_k, later input modes, r_{k-1}).
  double modes = static_cast<double>(s.Rows());
  for (int k = 0; k < s.inputs(); ++k) {
    modes /= static_cast<double>(s.Mode(k));
    per_token += modes * static_cast<double>(s.CoreSize(k));
  }
  // Output core k meets (output modes so far, r_{k-1}).
  modes = 1;
  for (int k = s.inputs(); k < s.order(); ++k) {
    per_token += modes * static_cast<double>(s.CoreSize(k));
    modes *= static_cast<double>(s.Mode(k));
  }
  return {tokens * per_token, 0, 2 * tokens * per_token, 0};
}

TtCost MaterialisedCost(const TtShape& s, double tokens) {
  const double entries =
      static_cast<double>(s.Rows()) * static_cast<double>(s.Cols());
  const double once =
      BuildCost(s) + entries * static_cast<double>(s.MiddleRank());
  return {tokens * entries, once, 2 * tokens * entries, 2 * once};
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
  }
  return "unknown";
}

TtCost CostOf(TtPath path, const TtShape& shape, int64_t tokens) {
  const double count = static_cast<double>(tokens);
  switch (path) {
    case TtPath::kPrefixSuffix:
      return PrefixSuffixCost(shape, count);
    case TtPath::kCoreByCore:
      return CoreByCoreCost(shape, count);
    case TtPath::kDense:
      return MaterialisedCost(shape, count);
  }
  return {};
}

TtChoice ChoosePath(const TtShape& shape, int64_t tokens) {
  TtChoice best = {TtPath::kPrefixSuffix,
                   CostOf(TtPath::kPrefixSuffix, shape, tokens)};
  for (TtPath path : {TtPath::kCoreByCore, TtPath::kDense}) {
    const TtCost cost = CostOf(path, shape, tokens);
    if (cost.total() < best.cost.total()) best = {path, cost};
  }
  return best;
}

TtCost DenseCost(int64_t rows, int64_t cols, int64_t tokens) {
  const double product = static_cast<double>(rows) * static_cast<double>(cols) *
                         static_cast<double>(tokens);
  return {product, 0, 2 * product, 0};
}

TtmCost CostOf(const TtmShape& s) {
  const int order = s.order(), split = order / 2;
  TtmCost cost;
  double entries = 1;  // rows x columns of the table so far
  double prefix_cols = 1, suffix_cols = 1;
  for (int k = 0; k < split; ++k) {
    if (k > 0) cost.build += entries * static_cast<double>(s.CoreSize(k));
    entries *= static_cast<double>(s.row_modes[k] * s.col_modes[k]);
    prefix_cols *= static_cast<double>(s.col_modes[k]);
  }
  entries = 1;
  for (int k = order - 1; k >= split; --k) {
    if (k < order - 1) {
      cost.build += entries * static_cast<double>(s.CoreSize(k));
    }
    entries *= static_cast<double>(s.row_modes[k] * s.col_modes[k]);
    suffix_cols *= static_cast<double>(s.col_modes[k]);
  }
  cost.per_row =
      prefix_cols * static_cast<double>(s.LeftRank(split)) * suffix_cols;
  double cols = static_cast<double>(s.col_modes[0]);
  for (int k = 1; k < order; ++k) {
    cost.per_row_chain += cols *
                          static_cast<double>(s.LeftRank(k) * s.col_modes[k]) *
                          static_cast<double>(s.RightRank(k));
    cols *= static_cast<double>(s.col_modes[k]);
  }
  return cost;
}

}  // namespace comera::kernels
