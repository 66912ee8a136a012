// The two tables of a tensor-train matrix lookup (TtmTables in backend.h).
#ifndef COMERA_KERNELS_CONTRACTION_TTM_TABLES_H_
#define COMERA_KERNELS_CONTRACTION_TTM_TABLES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// Contracts the first half of the folded cores to the prefix table (rows, cols,
// rank) and the rest to the suffix table (rank, rows, cols); row i of the
// embedding is then Backend::TtmLookup. Rows and columns are in C order of
// their modes. Per core one GEMM and one swap of axes:
//   (R, C, r) (r, m, n, r') -> (R, C, m, n, r') -> (R, m, C, n, r')
//   (r0, m, n, r) (r, S, T) -> (r0, m, n, S, T) -> (r0, m, S, n, T).
//
// Immutable; thread-safe. Memory as in TtChain: `kept` from Forward to
// Backward, `workspace` free between calls, `cores` the same in every call.
// Methods return what the backend returns.
class TtmTableChain {
 public:
  using Cores = absl::Span<const float* const>;

  static absl::StatusOr<TtmTableChain> Create(TtmShape shape);

  const TtmShape& shape() const { return shape_; }
  const TtmTables& tables() const { return tables_; }
  int64_t prefix_size() const {
    return tables_.prefix_rows * tables_.prefix_cols * tables_.rank;
  }
  int64_t suffix_size() const {
    return tables_.suffix_rows * tables_.suffix_cols * tables_.rank;
  }
  int64_t kept_size() const { return kept_size_; }
  int64_t workspace_size() const { return 2 * largest_; }

  absl::Status Forward(Backend* backend, Cores cores, float* kept,
                       float* workspace) const;
  const float* Prefix(Cores cores, const float* kept) const;
  const float* Suffix(Cores cores, const float* kept) const;
  // Writes (=) the gradients of all cores given those of the tables.
  absl::Status Backward(Backend* backend, Cores cores, const float* kept,
                        const float* grad_prefix, const float* grad_suffix,
                        absl::Span<float* const> grad_cores,
                        float* workspace) const;

 private:
  // The table that ends (first half) or begins (rest) with a core, seen before
  // that core joined: rows x cols.
  struct Step {
    int64_t rows = 1;
    int64_t cols = 1;
    int64_t offset = 0;  // of the joined table in `kept`
  };
  explicit TtmTableChain(TtmShape shape);
  int split() const { return shape_.order() / 2; }
  const float* Table(Cores cores, const float* kept, int core) const;
  absl::Status PrefixBackward(Backend* backend, Cores cores, const float* kept,
                              const float* grad,
                              absl::Span<float* const> grad_cores,
                              float* workspace) const;
  absl::Status SuffixBackward(Backend* backend, Cores cores, const float* kept,
                              const float* grad,
                              absl::Span<float* const> grad_cores,
                              float* workspace) const;

  TtmShape shape_;
  TtmTables tables_;
  std::vector<Step> steps_;
  int64_t kept_size_ = 0;
  int64_t largest_ = 0;  // of the joined tables
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TTM_TABLES_H_
