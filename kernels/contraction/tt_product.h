// The product of consecutive cores, and the way back from its gradient.
#ifndef COMERA_KERNELS_CONTRACTION_TT_PRODUCT_H_
#define COMERA_KERNELS_CONTRACTION_TT_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_build_order.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// Contracts folded cores [first, last) to one (left rank, modes in C order,
// right rank), in the order of TtBuildOrder, one GEMM per join:
//   (r0 S x r) (r x T r1) -> (r0, S, T, r1).
//
// Immutable; thread-safe. Memory is the caller's: `inner` (inner_size floats)
// holds the intermediate products from Forward to Backward, unless Rebuild
// computes them again; `result` (size floats) receives the final product;
// `workspace` (workspace_size) is free between calls. `cores` are pointers to
// all cores of the shape, with the same values in every call. Methods return
// what the backend returns.
class TtProduct {
 public:
  using Cores = absl::Span<const float* const>;

  // `shape` must be valid.
  TtProduct(const TtShape& shape, const TtBuildOrder& order, int first,
            int last);

  int first() const { return first_; }
  int last() const { return last_; }
  int64_t size() const { return size_; }  // floats of the result
  // A single core is its own product; Forward writes no `result` then.
  bool is_core() const { return joins_.empty(); }
  int64_t inner_size() const { return inner_size_; }
  int64_t workspace_size() const { return workspace_size_; }

  absl::Status Forward(Backend* backend, Cores cores, float* inner,
                       float* result) const;
  // Computes `inner` as Forward did.
  absl::Status Rebuild(Backend* backend, Cores cores, float* inner) const;
  // Writes (=) grad_cores[first..last) given the gradient of the result.
  absl::Status Backward(Backend* backend, Cores cores, const float* inner,
                        const float* grad_result,
                        absl::Span<float* const> grad_cores,
                        float* workspace) const;

 private:
  // A factor of a join: a core, or an earlier join.
  struct Factor {
    int core = 0;
    int join = -1;  // >= 0: that one
  };
  struct Join {
    Factor left, right;
    int64_t rows = 0, inner = 0, cols = 0;
    // In `inner` and in `workspace`; the last has none.
    int64_t inner_offset = 0, grad_offset = 0;
  };
  Factor AddJoins(const TtShape& shape, const TtBuildOrder& order, int first,
                  int last);
  const float* Value(const Factor& factor, Cores cores,
                     const float* inner) const {
    return factor.join < 0 ? cores[factor.core]
                           : inner + joins_[factor.join].inner_offset;
  }
  absl::Status Multiply(Backend* backend, const Join& join, Cores cores,
                        const float* inner, float* product) const;

  int first_, last_;
  int64_t size_ = 0;
  std::vector<Join> joins_;  // factors before what they make
  int64_t inner_size_ = 0;
  int64_t workspace_size_ = 0;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TT_PRODUCT_H_
