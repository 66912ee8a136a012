// AdamW on the flat parameter buffer, segment by segment.
#include "worker/trainer/optimizer/adamw.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

kernels::AdamWSegment SegmentOf(const AdamWOptions& options,
                                const Parameter& parameter) {
  kernels::AdamWSegment segment;
  segment.offset = parameter.offset;
  segment.size = parameter.size;
  double rate = options.learning_rate_other;
  if (options.group_head || !parameter.in_head) {
    if (parameter.kind == ParameterKind::kCore) {
      rate = options.learning_rate_cores;
    } else if (parameter.kind == ParameterKind::kRank) {
      rate = options.learning_rate_ranks;
    }
  }
  segment.learning_rate = static_cast<float>(rate);
  if (parameter.kind == ParameterKind::kDense && parameter.shape.size() >= 2) {
    segment.weight_decay = static_cast<float>(options.weight_decay);
  }
  if (parameter.table) {
    segment.learning_rate = static_cast<float>(options.learning_rate_tables);
    segment.row_size = options.all_rows ? 0 : parameter.shape.back();
    segment.adagrad = options.rowwise_adagrad;
  }
  return segment;
}

kernels::AdamWStep StepOf(const AdamWOptions& options, int64_t step,
                          double gradient_norm) {
  kernels::AdamWStep rule;
  rule.beta1 = static_cast<float>(options.beta1);
  rule.beta2 = static_cast<float>(options.beta2);
  rule.epsilon = static_cast<float>(options.epsilon);
  rule.step = step;
  rule.gradient_scale = ClipFactor(gradient_norm, options.clip_norm);
  return rule;
}

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(
    const AdamWOptions& options, const ParameterLayout& layout,
    kernels::Backend* backend) {
  std::vector<const Parameter*> all;
  for (const Parameter& parameter : layout.parameters()) {
    all.push_back(&parameter);
  }
  return Create(options, layout, all, backend);
}

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(
    const AdamWOptions& options, const ParameterLayout& layout,
    absl::Span<const Parameter* const> parameters, kernels::Backend* backend) {
  if (layout.moments_size() != layout.trained_size()) {
    return absl::InvalidArgumentError("AdamW: the layout has projections");
  }
  std::unique_ptr<AdamW> optimizer(new AdamW(options, layout, backend));
  for (const Parameter* parameter : parameters) {
    if (parameter->size == 0 || parameter->kind == ParameterKind::kFrozen) {
      continue;
    }
    const kernels::AdamWSegment next = SegmentOf(options, *parameter);
    std::vector<kernels::AdamWSegment>& all = optimizer->segments_;
    if (!all.empty() && all.back().offset + all.back().size == next.offset &&
        all.back().learning_rate == next.learning_rate &&
        all.back().weight_decay == next.weight_decay &&
        all.back().row_size == next.row_size &&
        all.back().adagrad == next.adagrad) {
      all.back().size += next.size;
    } else {
      all.push_back(next);
    }
  }
  optimizer->scaled_ = optimizer->segments_;
  ASSIGN_OR_RETURN(optimizer->norm_, GradientNorm::Create(backend));
  return optimizer;
}

absl::Status AdamW::CheckSizes(kernels::ConstVector parameters,
                               kernels::ConstVector gradients) const {
  if (parameters.size == size_ && gradients.size == trained_size_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "AdamW: ", parameters.size, " parameters and ", gradients.size,
      " gradients, not ", size_, " and ", trained_size_));
}

absl::StatusOr<double> AdamW::Step(int64_t step, double learning_rate_scale,
                                   kernels::Vector parameters,
                                   kernels::ConstVector gradients,
                                   const OptimizerState& state) {
  RETURN_IF_ERROR(CheckSizes(parameters, gradients));
  ASSIGN_OR_RETURN(const double norm, norm_->Measure(gradients));
  if (!std::isfinite(norm)) return norm;
  for (size_t i = 0; i < segments_.size(); ++i) {
    scaled_[i].learning_rate =
        static_cast<float>(segments_[i].learning_rate * learning_rate_scale);
  }
  RETURN_IF_ERROR(backend_->AdamW(StepOf(options_, step, norm), scaled_,
                                  {parameters.data, trained_size_}, gradients,
                                  state.first_moment, state.second_moment));
  return norm;
}

void AdamW::FillState(int64_t step, double learning_rate_scale,
                      kernels::StepState* state) const {
  const kernels::AdamWStep rule = StepOf(options_, step, 0);
  const double t = static_cast<double>(step);
  const auto correction = [t](float beta) {
    return static_cast<float>(1 - std::pow(static_cast<double>(beta), t));
  };
  state->first_correction = correction(rule.beta1);
  state->second_correction = correction(rule.beta2);
  state->learning_rate_scale = static_cast<float>(learning_rate_scale);
}

absl::Status AdamW::Enqueue(const kernels::StepState* step,
                            kernels::Vector parameters,
                            kernels::ConstVector gradients,
                            const OptimizerState& state) {
  RETURN_IF_ERROR(CheckSizes(parameters, gradients));
  RETURN_IF_ERROR(norm_->Enqueue(gradients));
  kernels::AdamWStep rule = StepOf(options_, 1, 0);
  rule.state = step;
  rule.squares = norm_->squares();
  rule.clip_norm = static_cast<float>(options_.clip_norm);
  return backend_->AdamW(rule, segments_, {parameters.data, trained_size_},
                         gradients, state.first_moment, state.second_moment);
}

}  // namespace comera::trainer
