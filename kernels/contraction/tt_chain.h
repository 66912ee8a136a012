// Prefix and suffix products of the cores of a TT linear layer.
#ifndef COMERA_KERNELS_CONTRACTION_TT_CHAIN_H_
#define COMERA_KERNELS_CONTRACTION_TT_CHAIN_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_product.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// Contracts folded cores H_1..H_order to the prefix A (N x r), the product of
// the input cores, and the suffix B (r x M), the product of the output cores,
// so that W = A B; r is the bond between inputs and outputs. Each half in its
// cheapest order (TtBuildOrder), one GEMM per join.
//
// Immutable; thread-safe. Memory is the caller's: `inner` (inner_size floats)
// holds the intermediate products of both halves from Forward to Backward,
// unless Rebuild computes them again; `workspace` (workspace_size floats) is
// free between calls. A, B and their gradients have no gaps between rows.
// `cores` are order() pointers to folded cores, with the same values in every
// call.
//
//   ASSIGN_OR_RETURN(TtChain chain, TtChain::Create(shape));
//   RETURN_IF_ERROR(chain.Forward(backend, cores, inner, a, b));
//   backend->Gemm(false, false, 1, x, ConstMatrix(a, n, r), 0, t);
//
// Methods return what the backend's Gemm returns.
class TtChain {
 public:
  using Cores = absl::Span<const float* const>;

  static absl::StatusOr<TtChain> Create(TtShape shape);

  const TtShape& shape() const { return shape_; }
  int64_t prefix_size() const { return prefix_.size(); }
  int64_t suffix_size() const { return suffix_.size(); }
  int64_t inner_size() const {
    return prefix_.inner_size() + suffix_.inner_size();
  }
  int64_t workspace_size() const {
    return std::max(prefix_.workspace_size(), suffix_.workspace_size());
  }

  // Writes A to `a` and B to `b`.
  absl::Status Forward(Backend* backend, Cores cores, float* inner, float* a,
                       float* b) const;
  // Computes `inner` as Forward did.
  absl::Status Rebuild(Backend* backend, Cores cores, float* inner) const;

  // Writes (=) the gradients of the input cores given that of A, and of the
  // output cores given that of B.
  absl::Status PrefixBackward(Backend* backend, Cores cores, const float* inner,
                              ConstMatrix grad_prefix,
                              absl::Span<float* const> grad_cores,
                              float* workspace) const;
  absl::Status SuffixBackward(Backend* backend, Cores cores, const float* inner,
                              ConstMatrix grad_suffix,
                              absl::Span<float* const> grad_cores,
                              float* workspace) const;

 private:
  explicit TtChain(TtShape shape);

  TtShape shape_;
  TtProduct prefix_, suffix_;  // in `inner` one behind the other
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TT_CHAIN_H_
