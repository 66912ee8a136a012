// The blocks of a plan that a batch touches.
#ifndef COMERA_KERNELS_CONTRACTION_TTM_INDEX_H_
#define COMERA_KERNELS_CONTRACTION_TTM_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/stable_order.h"
#include "kernels/contraction/ttm_plan.h"

namespace comera::kernels {

// The pairs of every step of a plan for one set of rows, computed on the host
// by radix sorts: linear in the rows, whatever the size of the table. Blocks of
// a step are numbered in the order of their digits, so that the numbering, and
// with it every sum, depends on the set of rows alone. Allocates when made and
// never again. Not thread-safe.
//
// The lists lie in one array, so that one copy brings them to a device.
class TtmIndex {
 public:
  explicit TtmIndex(const TtmPlan& plan);

  // InvalidArgument, and the rows before stay: more rows than planned, not
  // strictly ascending, or beyond the table. With `room` (at least rows.size(),
  // at most as planned) the tables and pairs have the sizes of the largest such
  // batch, and so the same for all; the surplus is never used (TtmPairs). 0:
  // none.
  absl::Status Set(absl::Span<const int32_t> rows, int64_t room = 0);

  // The rows of Forward's result, or the room for them if there was any.
  int64_t rows() const { return steps_.back().pairs; }
  absl::Span<const int32_t> lists() const { return lists_; }
  // The tables of a step as large as this batch, or its room, makes them.
  TtmTables Tables(int step) const;
  // Its pairs, where `lists` is a copy of lists().
  TtmPairs Pairs(int step, const int32_t* lists) const;

 private:
  struct Step {
    int64_t pairs = 0;  // with room, as many as there can be
    int64_t right_rows = 0;
    int64_t left_at = 0, out_at = 0, start_at = 0;  // in lists_
  };
  // Cuts the last digits off ascending values: left_ becomes the block of each
  // value's prefix of `cores` cores, prefixes_ the distinct ones.
  void CutPrefixes(absl::Span<const int32_t> values, int64_t divisor,
                   int cores);
  // The pairs (left_[i], keys_[i]) -> i of a step. Keys number the blocks of a
  // core, or else are suffixes below `limit`, of which the distinct ones
  // become suffixes_, ascending.
  void Fill(int step, int64_t limit);
  // Brings a step to the sizes of `room` rows.
  void MakeRoom(int step, int64_t room);

  const TtmPlan plan_;
  StableOrder sorter_;
  std::vector<Step> steps_;
  std::vector<int32_t> lists_;
  std::vector<int32_t> keys_, left_, row_prefix_;
  std::vector<int32_t> prefixes_, suffixes_, longer_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TTM_INDEX_H_
