// Consecutive rows of a tensor-train matrix, or all of them, and their
// gradients.
#ifndef COMERA_KERNELS_CONTRACTION_TTM_EXPANSION_H_
#define COMERA_KERNELS_CONTRACTION_TTM_EXPANSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// Joins neighbouring factors until one is left, the table. A factor is what
// some cores contract to, (left rank, rows, columns, right rank); two of them,
//   L (p, m, n, r) and R (r, m', n', q),
// are joined by a product of matrices, (p m n, r) times (r, m' n' q), and the
// exchange of n and m' in the result, (p, m m', n n', q). So the whole table
// takes as many products as there are bonds, all of them large where rows share
// their halves, and each is computed once. Cores on both sides of the middle
// are joined first: they make the halves that the last product multiplies.
//
// A table that is too large to be in memory as a whole is computed part by
// part: a part is the rows that share a row of the left half. The cores are
// joined to the two halves once for all parts.
//
// Immutable; thread-safe. Memory is the caller's: `kept` carries the halves
// from Forward to Backward, `scratch` is free between calls. Methods return
// what the backend returns.
class TtmExpansion {
 public:
  using Cores = absl::Span<const float* const>;

  // One call takes at most max_rows rows, but at least those of a part; 0: all.
  // InvalidArgument: as ValidateShape.
  static absl::StatusOr<TtmExpansion> Create(TtmShape shape,
                                             int64_t max_rows = 0);

  // Rows and columns of the table.
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t part_rows() const { return part_rows_; }
  // The most parts that one call takes.
  int64_t max_parts() const { return max_parts_; }
  int64_t kept_size() const { return kept_size_; }        // floats
  int64_t scratch_size() const { return scratch_size_; }  // floats

  // The whole table, of which max_parts() must be all. Writes table (rows(),
  // cols()), without gaps between its rows.
  absl::Status Forward(Backend* backend, Cores cores, float* kept,
                       float* scratch, float* table) const;
  // Writes (=) the gradients of all cores. `kept` is what Forward left there
  // and `cores` are the same.
  absl::Status Backward(Backend* backend, Cores cores, const float* kept,
                        const float* grad_table,
                        absl::Span<float* const> grad_cores,
                        float* scratch) const;

  // Computes the halves, which ExpandParts and ProjectParts need.
  absl::Status JoinHalves(Backend* backend, Cores cores, float* kept,
                          float* scratch) const;
  // Writes the rows of parts [first, first + count), count at most max_parts().
  absl::Status ExpandParts(Backend* backend, Cores cores, const float* kept,
                           int64_t first, int64_t count, float* scratch,
                           float* rows) const;
  // Takes the gradient of some parts' rows to the halves. A backward pass calls
  // it for parts that follow each other, from part 0 on, and then SplitHalves;
  // grad_cores and scratch keep their contents from the first call to the last.
  absl::Status ProjectParts(Backend* backend, Cores cores, const float* kept,
                            int64_t first, int64_t count,
                            const float* grad_rows,
                            absl::Span<float* const> grad_cores,
                            float* scratch) const;
  // Writes (=) the gradients of all cores. Parts from `parts` on, for which
  // ProjectParts was not called, have no gradient.
  absl::Status SplitHalves(Backend* backend, Cores cores, const float* kept,
                           int64_t parts, absl::Span<float* const> grad_cores,
                           float* scratch) const;

 private:
  // A core, or the result of a join.
  struct Factor {
    int64_t left = 1, rows = 1, cols = 1, right = 1;
    int core = -1;
    int64_t at = 0;  // in `kept`; a core lies where it lies
    int64_t size() const { return left * rows * cols * right; }
  };
  struct Join {
    int left = 0, right = 0, result = 0;  // indices in factors_
  };

  TtmExpansion() = default;
  int AddJoin(int left, int right);
  absl::Status CheckCount(size_t cores) const;
  absl::Status CheckParts(int64_t first, int64_t count) const;
  int64_t parts() const { return rows_ / part_rows_; }
  // A factor's place, and that of its gradient.
  static const float* Value(const Factor& factor, Cores cores,
                            const float* kept);
  float* Grad(const Factor& factor, absl::Span<float* const> grad_cores,
              float* scratch) const;

  std::vector<Factor> factors_;
  std::vector<Join> joins_;  // the last gives the table
  int64_t rows_ = 1, cols_ = 1;
  int64_t part_rows_ = 1, max_parts_ = 1;
  int64_t kept_size_ = 0, scratch_size_ = 0;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TTM_EXPANSION_H_
