#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_ADAMW_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_ADAMW_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "worker/trainer/model/plan/parameter_layout.h"
#include "worker/trainer/optimizer/gradient_norm.h"
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

// Constants of the optimiser, by parameter group.
struct AdamWOptions {
  double learning_rate_cores = 1e-3;
  double learning_rate_ranks = 1e-2;
  double learning_rate_other = 1e-3;
  // Lookup tables have a rate of their own.
  double learning_rate_tables = 1e-3;
  // Lookup tables are trained by row-wise Adagrad.
  bool rowwise_adagrad = false;
  // Lookup tables are trained like any other matrix, but at their own rate.
  bool all_rows = false;
  // Whether cores and rank entries of the head are in those groups too (the
  // pareto objective) or among the others (the published code).
  bool group_head = true;
  // On dense matrices only: not on biases, LayerNorm, rank entries or cores. On
  // the rows of a table only in steps that touch them.
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // Largest global norm of the gradient; 0: any.
  double clip_norm = 1;
};

// The rates of one parameter, at scale 1.
kernels::AdamWSegment SegmentOf(const AdamWOptions& options,
                                const Parameter& parameter);

// The constants of step number `step`.
kernels::AdamWStep StepOf(const AdamWOptions& options, int64_t step,
                          double gradient_norm);

// AdamW over flat buffers, with clipping; for layouts without projections.
//
// It is lazy on lookup tables (Parameter::table): a row that nobody looked up
// in this step keeps its values and its moments, and does not decay. A row's
// moments thus fade by its own updates, while the corrections of both moments
// count the steps of training. With all_rows it is not. Or it leaves tables to
// row-wise Adagrad (Naumov et al., arXiv 1906.00091), whose state is one number
// for each row.
class AdamW : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(
      const AdamWOptions& options, const ParameterLayout& layout,
      kernels::Backend* backend);
  // The same on some of the layout's parameters; all others stay. The norm of
  // the gradient is that of all.
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(
      const AdamWOptions& options, const ParameterLayout& layout,
      absl::Span<const Parameter* const> parameters, kernels::Backend* backend);

  absl::StatusOr<double> Step(int64_t step, double learning_rate_scale,
                              kernels::Vector parameters,
                              kernels::ConstVector gradients,
                              const OptimizerState& state) override;
  bool on_device() const override { return true; }
  void FillState(int64_t step, double learning_rate_scale,
                 kernels::StepState* state) const override;
  absl::Status Enqueue(const kernels::StepState* step,
                       kernels::Vector parameters,
                       kernels::ConstVector gradients,
                       const OptimizerState& state) override;
  const float* squares() const override { return norm_->squares(); }

  // At scale 1; neighbours under one rule are merged.
  const std::vector<kernels::AdamWSegment>& segments() const {
    return segments_;
  }

 private:
  AdamW(const AdamWOptions& options, const ParameterLayout& layout,
        kernels::Backend* backend)
      : options_(options),
        size_(layout.size()),
        trained_size_(layout.trained_size()),
        backend_(backend) {}

  absl::Status CheckSizes(kernels::ConstVector parameters,
                          kernels::ConstVector gradients) const;

  const AdamWOptions options_;
  const int64_t size_, trained_size_;
  kernels::Backend* const backend_;
  std::unique_ptr<GradientNorm> norm_;
  std::vector<kernels::AdamWSegment> segments_;
  std::vector<kernels::AdamWSegment> scaled_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_ADAMW_H_
