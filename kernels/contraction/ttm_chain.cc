// Computes rows of a tensor-train matrix step by step, and their gradients.
#include "kernels/contraction/ttm_chain.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

constexpr int64_t kLineFloats = 16;  // blocks of a step begin on cache lines

}  // namespace

TtmChain::TtmChain(TtmPlan plan) : plan_(std::move(plan)) {
  const std::vector<TtmStep>& steps = plan_.steps();
  for (size_t t = 0; t + 1 < steps.size(); ++t) {
    offsets_.push_back(size_);
    const int64_t floats = steps[t].max_pairs * steps[t].Width();
    size_ += (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
  }
}

absl::Status TtmChain::CheckCount(size_t cores) const {
  const int order = plan_.shape().order();
  if (static_cast<int>(cores) == order) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(cores, " cores for order ", order));
}

absl::Status TtmChain::Forward(Backend* backend, Cores cores,
                               const TtmIndex& index, const int32_t* lists,
                               float* kept, Matrix out) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  const auto factor = [&](const TtmFactor& f) {
    return f.core >= 0 ? cores[f.core] : kept + offsets_[f.step];
  };
  const int last = static_cast<int>(plan_.steps().size()) - 1;
  for (int t = 0; t <= last; ++t) {
    const TtmStep& step = plan_.steps()[t];
    const TtmPairs pairs = index.Pairs(t, lists);
    RETURN_IF_ERROR(backend->TtmLookup(
        index.Tables(t), factor(step.left), factor(step.right), pairs,
        t == last ? out
                  : Matrix(kept + offsets_[t], pairs.out.size, step.Width())));
  }
  return absl::OkStatus();
}

absl::Status TtmChain::Backward(Backend* backend, Cores cores,
                                const TtmIndex& index, const int32_t* lists,
                                const float* kept, ConstMatrix grad_out,
                                absl::Span<float* const> grad_cores,
                                float* workspace) const {
  RETURN_IF_ERROR(CheckCount(cores.size()));
  RETURN_IF_ERROR(CheckCount(grad_cores.size()));
  const auto factor = [&](const TtmFactor& f) {
    return f.core >= 0 ? cores[f.core] : kept + offsets_[f.step];
  };
  const auto grad = [&](const TtmFactor& f) {
    return f.core >= 0 ? grad_cores[f.core] : workspace + offsets_[f.step];
  };
  const int last = static_cast<int>(plan_.steps().size()) - 1;
  for (int t = last; t >= 0; --t) {
    const TtmStep& step = plan_.steps()[t];
    const TtmPairs pairs = index.Pairs(t, lists);
    RETURN_IF_ERROR(backend->TtmLookupBackward(
        index.Tables(t), factor(step.left), factor(step.right), pairs,
        t == last ? grad_out
                  : ConstMatrix(workspace + offsets_[t], pairs.out.size,
                                step.Width()),
        grad(step.left), grad(step.right)));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
