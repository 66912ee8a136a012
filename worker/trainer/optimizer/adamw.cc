#include "worker/trainer/optimizer/adamw.h"

#include <cmath>

#include "common/status_macros.h"

namespace comera::trainer {

kernels::AdamWSegment AdamW::SegmentOf(const Parameter& parameter) const {
  kernels::AdamWSegment segment;
  segment.offset = parameter.offset;
  segment.size = parameter.size;
  double rate = options_.learning_rate_other;
  if (options_.group_head || !parameter.in_head) {
    if (parameter.kind == ParameterKind::kCore) {
      rate = options_.learning_rate_cores;
    } else if (parameter.kind == ParameterKind::kRank) {
      rate = options_.learning_rate_ranks;
    }
  }
  segment.learning_rate = static_cast<float>(rate);
  if (parameter.kind == ParameterKind::kDense && parameter.shape.size() >= 2) {
    segment.weight_decay = static_cast<float>(options_.weight_decay);
  }
  return segment;
}

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(
    const AdamWOptions& options, const ParameterLayout& layout,
    kernels::Backend* backend) {
  std::unique_ptr<AdamW> optimizer(new AdamW(options, backend));
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.size == 0) continue;
    const kernels::AdamWSegment next = optimizer->SegmentOf(parameter);
    std::vector<kernels::AdamWSegment>& all = optimizer->segments_;
    if (!all.empty() && all.back().offset + all.back().size == next.offset &&
        all.back().learning_rate == next.learning_rate &&
        all.back().weight_decay == next.weight_decay) {
      all.back().size += next.size;
    } else {
      all.push_back(next);
    }
  }
  optimizer->norm_piece_ =
      optimizer->arena_.Reserve("gradient norm", sizeof(float));
  RETURN_IF_ERROR(optimizer->arena_.Commit());
  return optimizer;
}

absl::StatusOr<double> AdamW::Step(int64_t step, double learning_rate_scale,
                                   kernels::Vector parameters,
                                   kernels::ConstVector gradients,
                                   kernels::Vector first_moment,
                                   kernels::Vector second_moment) {
  float* device_norm = arena_.Floats(norm_piece_);
  RETURN_IF_ERROR(backend_->SumOfSquares(gradients, device_norm));
  float sum_of_squares = 0;
  RETURN_IF_ERROR(
      backend_->CopyToHost(&sum_of_squares, device_norm, sizeof(float)));
  const double norm = std::sqrt(static_cast<double>(sum_of_squares));
  if (!std::isfinite(norm)) return norm;

  kernels::AdamWStep rule;
  rule.beta1 = static_cast<float>(options_.beta1);
  rule.beta2 = static_cast<float>(options_.beta2);
  rule.epsilon = static_cast<float>(options_.epsilon);
  rule.step = step;
  if (options_.clip_norm > 0 && norm > options_.clip_norm) {
    rule.gradient_scale = static_cast<float>(options_.clip_norm / norm);
  }
  std::vector<kernels::AdamWSegment> segments = segments_;
  for (kernels::AdamWSegment& segment : segments) {
    segment.learning_rate =
        static_cast<float>(segment.learning_rate * learning_rate_scale);
  }
  RETURN_IF_ERROR(backend_->AdamW(rule, segments, parameters, gradients,
                                  first_moment, second_moment));
  return norm;
}

}  // namespace comera::trainer
