// Rows of a tensor-train matrix, and their gradients.
#ifndef COMERA_KERNELS_CONTRACTION_TTM_CHAIN_H_
#define COMERA_KERNELS_CONTRACTION_TTM_CHAIN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/ttm_index.h"
#include "kernels/contraction/ttm_plan.h"

namespace comera::kernels {

// Runs the steps of a plan, forward and backward, for the rows of an index.
//
// Immutable; thread-safe. Memory as in TtChain: `kept` from Forward to
// Backward, `workspace` free between calls, `cores` and the index with its
// lists on the device the same in both. Methods return what the backend
// returns.
class TtmChain {
 public:
  using Cores = absl::Span<const float* const>;

  explicit TtmChain(TtmPlan plan);

  const TtmPlan& plan() const { return plan_; }
  int64_t kept_size() const { return size_; }       // floats
  int64_t workspace_size() const { return size_; }  // floats

  // out (index.rows(), columns of the table). `lists` is index.lists() on the
  // device.
  absl::Status Forward(Backend* backend, Cores cores, const TtmIndex& index,
                       const int32_t* lists, float* kept, Matrix out) const;
  // Writes (=) the gradients of all cores.
  absl::Status Backward(Backend* backend, Cores cores, const TtmIndex& index,
                        const int32_t* lists, const float* kept,
                        ConstMatrix grad_out,
                        absl::Span<float* const> grad_cores,
                        float* workspace) const;

 private:
  absl::Status CheckCount(size_t cores) const;

  const TtmPlan plan_;
  std::vector<int64_t> offsets_;  // blocks of each step but the last
  int64_t size_ = 0;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_TTM_CHAIN_H_
