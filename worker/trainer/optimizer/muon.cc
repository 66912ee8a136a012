// Orthogonalised steps on matrices beside AdamW on the rest.
#include "worker/trainer/optimizer/muon.h"

#include <cmath>
#include <set>

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::OrthogonalSegment;

absl::StatusOr<std::unique_ptr<Muon>> Muon::Create(
    const MuonOptions& options, const std::vector<OrthogonalMatrix>& matrices,
    const ParameterLayout& layout, kernels::Backend* backend) {
  if (layout.moments_size() != layout.trained_size()) {
    return absl::InvalidArgumentError("Muon: the layout has projections");
  }
  std::unique_ptr<Muon> optimizer(
      new Muon(options.momentum, layout.trained_size(), backend));
  std::set<int> taken;
  for (const OrthogonalMatrix& matrix : matrices) {
    const Parameter& parameter = layout[matrix.parameter];
    taken.insert(matrix.parameter);
    OrthogonalSegment segment;
    segment.offset = parameter.offset;
    segment.rows = matrix.rows;
    segment.cols = matrix.cols;
    segment.learning_rate =
        static_cast<float>(options.adamw.learning_rate_cores);
    segment.relative = true;
    if (parameter.kind == ParameterKind::kDense) {
      segment.weight_decay = static_cast<float>(options.adamw.weight_decay);
    }
    optimizer->segments_.push_back(segment);
  }
  optimizer->scaled_ = optimizer->segments_;
  std::vector<const Parameter*> others;
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    if (taken.count(static_cast<int>(i)) == 0) {
      others.push_back(&layout.parameters()[i]);
    }
  }
  ASSIGN_OR_RETURN(optimizer->adamw_,
                   AdamW::Create(options.adamw, layout, others, backend));
  optimizer->workspace_ = optimizer->arena_.Reserve(
      "orthogonal step",
      backend->OrthogonalStepWorkspaceBytes(optimizer->segments_));
  RETURN_IF_ERROR(optimizer->arena_.Commit());
  return optimizer;
}

absl::StatusOr<double> Muon::Step(int64_t step, double learning_rate_scale,
                                  kernels::Vector parameters,
                                  kernels::ConstVector gradients,
                                  const OptimizerState& state) {
  ASSIGN_OR_RETURN(
      const double norm,
      adamw_->Step(step, learning_rate_scale, parameters, gradients, state));
  if (!std::isfinite(norm)) return norm;
  for (size_t i = 0; i < segments_.size(); ++i) {
    scaled_[i].learning_rate =
        static_cast<float>(segments_[i].learning_rate * learning_rate_scale);
  }
  kernels::OrthogonalRule rule;
  rule.momentum = static_cast<float>(momentum_);
  RETURN_IF_ERROR(StepMatrices(rule, scaled_, parameters, gradients, state));
  return norm;
}

absl::Status Muon::Enqueue(const kernels::StepState* step,
                           kernels::Vector parameters,
                           kernels::ConstVector gradients,
                           const OptimizerState& state) {
  RETURN_IF_ERROR(adamw_->Enqueue(step, parameters, gradients, state));
  kernels::OrthogonalRule rule;
  rule.momentum = static_cast<float>(momentum_);
  rule.state = step;
  rule.squares = adamw_->squares();
  return StepMatrices(rule, segments_, parameters, gradients, state);
}

absl::Status Muon::StepMatrices(const kernels::OrthogonalRule& rule,
                                absl::Span<const OrthogonalSegment> all,
                                kernels::Vector parameters,
                                kernels::ConstVector gradients,
                                const OptimizerState& state) {
  return backend_->OrthogonalStep(rule, all, {parameters.data, trained_size_},
                                  gradients, state.first_moment,
                                  arena_.Floats(workspace_));
}

}  // namespace comera::trainer
