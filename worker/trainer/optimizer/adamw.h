#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_ADAMW_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_ADAMW_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/model/parameter_layout.h"

namespace comera::trainer {

// Constants of the optimiser, by parameter group.
struct AdamWOptions {
  double learning_rate_cores = 1e-3;
  double learning_rate_ranks = 1e-2;
  double learning_rate_other = 1e-3;
  // Whether cores and rank entries of the head are in those groups too (the
  // pareto objective) or among the others (the published code).
  bool group_head = true;
  // On dense matrices only: not on biases, LayerNorm, rank entries or cores.
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // Largest global norm of the gradient; 0: any.
  double clip_norm = 1;
};

// AdamW over flat buffers, with clipping.
//
// Life cycle: bound to one layout by Create; after a change of ranks, create a
// new one. The moments are the caller's buffers, so that they can be compacted
// and saved. Not thread-safe.
class AdamW {
 public:
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(
      const AdamWOptions& options, const ParameterLayout& layout,
      kernels::Backend* backend);

  // Step number `step` (from 1). All buffers hold the layout's size. Returns
  // the gradient's norm before clipping; if that is not finite nothing was
  // changed.
  absl::StatusOr<double> Step(int64_t step, double learning_rate_scale,
                              kernels::Vector parameters,
                              kernels::ConstVector gradients,
                              kernels::Vector first_moment,
                              kernels::Vector second_moment);

  // At scale 1; neighbours under one rule are merged.
  const std::vector<kernels::AdamWSegment>& segments() const {
    return segments_;
  }

 private:
  AdamW(const AdamWOptions& options, kernels::Backend* backend)
      : options_(options), backend_(backend), arena_(backend) {}
  kernels::AdamWSegment SegmentOf(const Parameter& parameter) const;

  const AdamWOptions options_;
  kernels::Backend* const backend_;
  kernels::Arena arena_;
  kernels::Arena::Piece norm_piece_ = 0;
  std::vector<kernels::AdamWSegment> segments_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_ADAMW_H_
