// AdamW that moves the LTE heads' mean into the frozen weights.
#include "worker/trainer/optimizer/lte_optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

std::vector<LteLayer> LteLayersOf(const ModelConfig& config) {
  std::vector<LteLayer> layers;
  for (const FactorisableLayer& layer : FactorisableLayers(config)) {
    const LowRank& form = config.layers_by_name.at(layer.key).low_rank;
    if (form.kind != LowRank::Kind::kLte) continue;
    layers.push_back({layer.name, form.heads, form.scale});
  }
  return layers;
}

absl::StatusOr<std::unique_ptr<LteOptimizer>> LteOptimizer::Create(
    const AdamWOptions& options, int64_t merge_every_steps,
    const std::vector<LteLayer>& layers, const ParameterLayout& layout,
    kernels::Backend* backend) {
  if (merge_every_steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("LTE: a merge every ", merge_every_steps, " steps"));
  }
  std::unique_ptr<LteOptimizer> optimizer(
      new LteOptimizer(merge_every_steps, backend));
  ASSIGN_OR_RETURN(optimizer->adamw_, AdamW::Create(options, layout, backend));
  for (const LteLayer& layer : layers) {
    const int weight = layout.Find(layer.name + ".weight");
    const int a = layout.Find(layer.name + ".a");
    const int b = layout.Find(layer.name + ".b");
    const int previous_a = layout.Find(layer.name + ".previous_a");
    const int previous_b = layout.Find(layer.name + ".previous_b");
    if (std::min({weight, a, b, previous_a, previous_b}) < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LTE: ", layer.name, " is not in the layout in this form"));
    }
    optimizer->layers_.push_back(
        {layout[weight], layout[a], layout[b], layout[previous_a],
         layout[previous_b],
         static_cast<float>(layer.scale / static_cast<double>(layer.heads))});
  }
  return optimizer;
}

absl::StatusOr<double> LteOptimizer::Step(int64_t step,
                                          double learning_rate_scale,
                                          kernels::Vector parameters,
                                          kernels::ConstVector gradients,
                                          const OptimizerState& state) {
  ASSIGN_OR_RETURN(
      const double norm,
      adamw_->Step(step, learning_rate_scale, parameters, gradients, state));
  if (!std::isfinite(norm) || step % merge_every_steps_ != 0) return norm;
  for (const Layer& layer : layers_) {
    RETURN_IF_ERROR(Merge(layer, parameters.data));
  }
  return norm;
}

absl::Status LteOptimizer::Merge(const Layer& layer, float* parameters) {
  const int64_t inputs = layer.weight.shape[0];
  const int64_t outputs = layer.weight.shape[1];
  const int64_t width = layer.a.shape[1];
  const kernels::Matrix w(parameters + layer.weight.offset, inputs, outputs);
  // A and B hold the heads side by side, so one product is their sum.
  const auto add = [&](float factor, const Parameter& a, const Parameter& b) {
    return backend_->Gemm(
        false, false, factor,
        kernels::ConstMatrix(parameters + a.offset, inputs, width),
        kernels::ConstMatrix(parameters + b.offset, width, outputs), 1, w);
  };
  const auto copy = [&](const Parameter& from, const Parameter& to) {
    return backend_->Copy(parameters + to.offset, parameters + from.offset,
                          from.size * int64_t{sizeof(float)});
  };
  RETURN_IF_ERROR(add(layer.factor, layer.a, layer.b));
  RETURN_IF_ERROR(add(-layer.factor, layer.previous_a, layer.previous_b));
  RETURN_IF_ERROR(copy(layer.a, layer.previous_a));
  return copy(layer.b, layer.previous_b);
}

}  // namespace comera::trainer
