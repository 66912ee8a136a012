// GaLore: Adam on projected gradients.
#include "worker/trainer/optimizer/galore.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/optimizer/singular_vectors.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;
using kernels::Vector;

namespace {

// Rows of the projected gradient that are worked on at a time; kept (long side,
// rank), they are next to each other.
constexpr int64_t kBlockRows = 1024;

constexpr char kOtherSizes[] = "GaLore: buffers of another layout's size";

}  // namespace

void Galore::AddWhole(const Parameter& parameter) {
  const kernels::AdamWSegment next = SegmentOf(options_.adamw, parameter);
  if (!whole_.empty()) {
    WholeRun& last = whole_.back();
    const int64_t end = last.segment.offset + last.segment.size;
    if (end == parameter.offset &&
        last.segment.weight_decay == next.weight_decay &&
        last.segment.row_size == next.row_size &&
        last.segment.adagrad == next.adagrad &&
        last.segment.learning_rate == next.learning_rate) {
      last.segment.size += next.size;
      return;
    }
  }
  whole_.push_back({next, parameter.moment_offset});
}

absl::StatusOr<std::unique_ptr<Galore>> Galore::Create(
    const GaloreOptions& options, const ParameterLayout& layout,
    kernels::Backend* backend) {
  if (options.refresh_every_steps < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GaLore: a projector every ", options.refresh_every_steps, " steps"));
  }
  std::unique_ptr<Galore> galore(new Galore(options, layout, backend));
  int64_t rank = 0;
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.kind == ParameterKind::kFrozen || parameter.size == 0) {
      continue;
    }
    if (parameter.projection_rank == 0) galore->AddWhole(parameter);
    rank = std::max(rank, parameter.projection_rank);
  }
  const int64_t bytes = kBlockRows * rank * int64_t{sizeof(float)};
  galore->projected_ = galore->arena_.Reserve("projected gradient", bytes);
  galore->direction_ = galore->arena_.Reserve("direction", bytes);
  RETURN_IF_ERROR(galore->arena_.Commit());
  ASSIGN_OR_RETURN(galore->norm_, GradientNorm::Create(backend));
  return galore;
}

absl::StatusOr<double> Galore::Step(int64_t step, double learning_rate_scale,
                                    Vector parameters,
                                    kernels::ConstVector gradients,
                                    const OptimizerState& state) {
  RETURN_IF_ERROR(CheckSizes(parameters, state));
  const ParameterRange all{0, layout_.trained_size()};
  if (gradients.size != all.size) {
    return absl::InvalidArgumentError(kOtherSizes);
  }
  ASSIGN_OR_RETURN(const double norm, norm_->Measure(gradients));
  if (std::isfinite(norm)) {
    RETURN_IF_ERROR(Update(step, norm, learning_rate_scale, all,
                           parameters.data, gradients.data, state));
  }
  return norm;
}

absl::StatusOr<double> Galore::StepBlock(int64_t step,
                                         double learning_rate_scale,
                                         const ParameterRange& block,
                                         Vector parameters,
                                         kernels::ConstVector gradients,
                                         const OptimizerState& state) {
  if (options_.adamw.clip_norm > 0) {
    return absl::FailedPreconditionError(
        "GaLore: clipping needs all gradients at once");
  }
  RETURN_IF_ERROR(CheckSizes(parameters, state));
  if (gradients.size != block.size) {
    return absl::InvalidArgumentError(kOtherSizes);
  }
  const int64_t end = block.first + block.size;
  for (const Parameter& p : layout_.parameters()) {
    const bool apart = p.offset >= end || p.offset + p.size <= block.first;
    if (!apart && !block.Holds(p)) {
      return absl::InvalidArgumentError(
          absl::StrCat("GaLore: a block cuts ", p.name));
    }
  }
  ASSIGN_OR_RETURN(const double norm, norm_->Measure(gradients));
  if (std::isfinite(norm)) {
    RETURN_IF_ERROR(Update(step, norm, learning_rate_scale, block,
                           parameters.data, gradients.data, state));
  }
  return norm;
}

absl::Status Galore::CheckSizes(kernels::ConstVector parameters,
                                const OptimizerState& state) const {
  if (parameters.size != layout_.size() ||
      state.first_moment.size != layout_.moments_size() ||
      state.second_moment.size != layout_.moments_size() ||
      state.projectors.size != layout_.projectors_size()) {
    return absl::InvalidArgumentError(kOtherSizes);
  }
  return absl::OkStatus();
}

absl::Status Galore::Update(int64_t step, double norm,
                            double learning_rate_scale,
                            const ParameterRange& block, float* parameters,
                            const float* gradients,
                            const OptimizerState& state) {
  kernels::AdamWStep rule = StepOf(options_.adamw, step, norm);
  // sqrt(v) + epsilon is what divides, not sqrt(v / correction) + epsilon.
  rule.epsilon =
      static_cast<float>(options_.adamw.epsilon /
                         std::sqrt(1 - std::pow(static_cast<double>(rule.beta2),
                                                static_cast<double>(step))));
  for (const WholeRun& run : whole_) {
    const int64_t begin = std::max(run.segment.offset, block.first);
    const int64_t end = std::min(run.segment.offset + run.segment.size,
                                 block.first + block.size);
    if (begin >= end) continue;
    WholeRun part = run;
    part.segment.offset = begin;
    part.segment.size = end - begin;
    part.moment_offset += begin - run.segment.offset;
    RETURN_IF_ERROR(StepWhole(part, rule, learning_rate_scale, parameters,
                              gradients + (begin - block.first), state));
  }
  for (const Parameter& p : layout_.parameters()) {
    if (p.projection_rank == 0 || !block.Holds(p)) continue;
    RETURN_IF_ERROR(StepProjected(p, rule, learning_rate_scale, parameters,
                                  gradients + (p.offset - block.first), state));
  }
  return absl::OkStatus();
}

absl::Status Galore::StepWhole(const WholeRun& run,
                               const kernels::AdamWStep& rule,
                               double learning_rate_scale, float* parameters,
                               const float* gradients,
                               const OptimizerState& state) {
  kernels::AdamWSegment segment = run.segment;
  const int64_t at = segment.offset, size = segment.size;
  const double rate = segment.learning_rate * learning_rate_scale;
  const double decay = segment.weight_decay;
  // (1 - rate decay) (p - rate N), as the backend has it: p - a (N + b p).
  const double kept = 1 - rate * decay;
  segment.offset = 0;
  segment.learning_rate = static_cast<float>(rate * kept);
  segment.weight_decay = static_cast<float>(decay / kept);
  return backend_->AdamW(rule, absl::MakeConstSpan(&segment, 1),
                         {parameters + at, size}, {gradients, size},
                         {state.first_moment.data + run.moment_offset, size},
                         {state.second_moment.data + run.moment_offset, size});
}

absl::Status Galore::StepProjected(const Parameter& parameter,
                                   const kernels::AdamWStep& rule,
                                   double learning_rate_scale,
                                   float* parameters, const float* gradients,
                                   const OptimizerState& state) {
  const int64_t m = parameter.shape[0], n = parameter.shape[1];
  const int64_t r = parameter.projection_rank;
  const bool wide = m <= n;
  float* w = parameters + parameter.offset;
  const Matrix p(state.projectors.data + parameter.projector_offset,
                 std::min(m, n), r);
  if ((rule.step - 1) % options_.refresh_every_steps == 0) {
    RETURN_IF_ERROR(
        LeadingSingularVectors(ConstMatrix(gradients, m, n), r, backend_, p));
  }
  const kernels::AdamWSegment rates = SegmentOf(options_.adamw, parameter);
  const double rate = rates.learning_rate * learning_rate_scale;
  const float factor = static_cast<float>(rate * options_.scale);
  const int64_t length = std::max(m, n);
  for (int64_t first = 0; first < length; first += kBlockRows) {
    const int64_t count = std::min(kBlockRows, length - first);
    const Matrix projected(arena_.Floats(projected_), count, r);
    const Matrix direction(arena_.Floats(direction_), count, r);
    if (wide) {
      RETURN_IF_ERROR(backend_->Gemm(
          true, false, 1, ConstMatrix(gradients + first, m, count, n), p, 0,
          projected));
    } else {
      RETURN_IF_ERROR(backend_->Gemm(
          false, false, 1, ConstMatrix(gradients + first * n, count, n), p, 0,
          projected));
    }
    // Adam from 0 at rate 1 gives -N.
    const int64_t size = count * r;
    const int64_t at = parameter.moment_offset + first * r;
    const kernels::AdamWSegment unit{0, size, 1, 0};
    RETURN_IF_ERROR(backend_->Fill({direction.data, size}, 0));
    RETURN_IF_ERROR(backend_->AdamW(
        rule, absl::MakeConstSpan(&unit, 1), {direction.data, size},
        {projected.data, size}, {state.first_moment.data + at, size},
        {state.second_moment.data + at, size}));
    if (wide) {
      RETURN_IF_ERROR(backend_->Gemm(false, true, factor, p, direction, 1,
                                     Matrix(w + first, m, count, n)));
    } else {
      RETURN_IF_ERROR(backend_->Gemm(false, true, factor, direction, p, 1,
                                     Matrix(w + first * n, count, n)));
    }
  }
  if (rates.weight_decay == 0) return absl::OkStatus();
  return backend_->Scale(static_cast<float>(1 - rate * rates.weight_decay),
                         {w, m * n});
}

}  // namespace comera::trainer
