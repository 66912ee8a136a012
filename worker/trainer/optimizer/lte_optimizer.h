#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_LTE_OPTIMIZER_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_LTE_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/optimizer/adamw.h"
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

// A layer whose heads are merged: NAME.weight, NAME.a and NAME.b, and the
// factors at the last merge, NAME.previous_a and NAME.previous_b.
struct LteLayer {
  std::string name;
  int64_t heads = 1;
  double scale = 1;
};
// The LTE layers of `config`.
std::vector<LteLayer> LteLayersOf(const ModelConfig& config);

// LTE (arXiv 2402.16828): AdamW on everything that is trained, and every T
// steps what the heads have learnt since the last merge goes into the frozen
// weight in the mean,
//   W += scale / heads sum_n (A_n B_n - A'_n B'_n),  A' = A, B' = B.
// The factors and their moments stay. What a head adds to W is from then on the
// difference to A' B' (adapter_linear.h), so the function of the model, which
// is the mean of the heads, does not change.
class LteOptimizer : public Optimizer {
 public:
  // InvalidArgument: a layer is not in the layout.
  static absl::StatusOr<std::unique_ptr<LteOptimizer>> Create(
      const AdamWOptions& options, int64_t merge_every_steps,
      const std::vector<LteLayer>& layers, const ParameterLayout& layout,
      kernels::Backend* backend);

  absl::StatusOr<double> Step(int64_t step, double learning_rate_scale,
                              kernels::Vector parameters,
                              kernels::ConstVector gradients,
                              const OptimizerState& state) override;

 private:
  struct Layer {
    Parameter weight, a, b, previous_a, previous_b;
    float factor = 0;  // scale / heads
  };

  LteOptimizer(int64_t merge_every_steps, kernels::Backend* backend)
      : merge_every_steps_(merge_every_steps), backend_(backend) {}
  absl::Status Merge(const Layer& layer, float* parameters);

  const int64_t merge_every_steps_;
  kernels::Backend* const backend_;
  std::unique_ptr<AdamW> adamw_;
  std::vector<Layer> layers_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_LTE_OPTIMIZER_H_
