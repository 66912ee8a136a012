// In which order a tensor-train matrix is contracted for the rows of a batch.
#ifndef COMERA_KERNELS_CONTRACTION_TTM_PLAN_H_
#define COMERA_KERNELS_CONTRACTION_TTM_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// Where a factor of a product comes from.
struct TtmFactor {
  int core = -1;  // this core, or
  int step = -1;  // the blocks that an earlier step computed
};

// One Backend::TtmLookup. `tables` is for the largest batch; a factor that is a
// step has only as many blocks as the batch touches.
struct TtmStep {
  TtmFactor left, right;
  TtmTables tables;
  int64_t max_pairs = 0;
  // Floats of one result.
  int64_t Width() const {
    return tables.left_outer * tables.left_inner * tables.right_cols;
  }
};

// The cores before the bond `split` grow block by block to prefixes, those from
// it on to suffixes, and a row of the table is the product of its prefix and
// its suffix (REFERENCE.md, "TTM lookup"). Rows share what they have in common
// at every length: a block is computed once for all rows that begin (or end)
// with its digits, and not at all if no row does. So the work and the memory
// are bounded by the batch even where the whole tables would be far larger.
//
// Steps: prefixes of 2 .. split cores, suffixes of 2 .. order - split cores,
// the rows. Every core and every step is a factor of exactly one later step.
// Immutable; thread-safe.
class TtmPlan {
 public:
  // A plan for at most max_rows distinct rows, split where a batch of
  // kTypicalRows that differ as early as they can takes the fewest
  // multiply-adds: not a matter of max_rows, so that ranks with other shares of
  // a batch sum in the same order. InvalidArgument: as ValidateShape; a table
  // of 2^31 rows or more.
  static constexpr int64_t kTypicalRows = 8192;
  static absl::StatusOr<TtmPlan> Create(TtmShape shape, int64_t max_rows);
  // Split as told, in [1, order).
  static absl::StatusOr<TtmPlan> Create(TtmShape shape, int64_t max_rows,
                                        int split);

  const TtmShape& shape() const { return shape_; }
  int64_t max_rows() const { return max_rows_; }
  int split() const { return split_; }
  int64_t table_rows() const { return RowsFrom(0); }
  const std::vector<TtmStep>& steps() const { return steps_; }
  // Product of the row modes of cores [core, order).
  int64_t RowsFrom(int core) const { return rows_from_[core]; }
  // Multiply-adds of a forward pass over max_rows, at most; backward is twice
  // that.
  double cost() const { return cost_; }

 private:
  TtmPlan(TtmShape shape, int64_t max_rows, int split);
  void AddStep(TtmFactor left, TtmFactor right, int64_t max_pairs);
  int64_t BlockRows(const TtmFactor& factor) const;

  TtmShape shape_;
  int64_t max_rows_;
  int split_;
  std::vector<int64_t> rows_from_;
  std::vector<TtmStep> steps_;
  double cost_ = 0;
};

// Multiply-adds of contracting the whole chain, core by core, for each of
// `rows` rows on its own.
double RowByRowCost(const TtmShape& shape, int64_t rows);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TTM_PLAN_H_
