// Folds rank entries into cores, and takes gradients back to both.
#include "worker/trainer/model/linear/folded_cores.h"

#include "common/status_macros.h"
#include "kernels/together.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kLineFloats = 16;  // cores begin on cache lines

}  // namespace

FoldedCores::FoldedCores(const Plan& plan, const std::string& layer_name,
                         const std::string& scratch, Memory memory)
    : plan_(plan), memory_(memory) {
  int64_t floats = 0;
  int64_t folded_floats = 0;  // without the last core
  for (const TensorisedLayer& layer : plan.layout->layers) {
    if (layer.name != layer_name) continue;
    for (size_t i = 0; i < layer.cores.size(); ++i) {
      const bool last = i + 1 == layer.cores.size();
      const Parameter& g = plan.layout->parameters[layer.cores[i]];
      folded_floats = floats;
      parts_.push_back(
          {&g, last ? nullptr : &plan.layout->parameters[layer.bonds[i]],
           floats});
      floats += (g.size + kLineFloats - 1) / kLineFloats * kLineFloats;
    }
  }
  cores_.resize(parts_.size());
  grad_cores_.resize(parts_.size());
  constexpr int64_t kFloat = sizeof(float);
  const int64_t bytes = folded_floats * kFloat;
  folded_ = memory == Memory::kOwn
                ? plan.memory->whole()->Reserve(layer_name + ".folded", bytes)
                : plan.memory->contraction()->Reserve("folded", bytes);
  grad_ = plan.sums->Reserve(scratch + ".grad_cores", floats * kFloat);
}

absl::Status FoldedCores::Fold(const Step& step) {
  return kernels::RunTogether(plan_.backend, [&] { return FoldEach(step); });
}

absl::Status FoldedCores::FoldAgain(const Step& step) {
  if (memory_ == Memory::kOwn || !plan_.memory->contraction()->shared()) {
    return absl::OkStatus();
  }
  return Fold(step);
}

float* FoldedCores::folded() const {
  return memory_ == Memory::kOwn ? plan_.memory->whole()->Floats(folded_)
                                 : plan_.memory->contraction()->Floats(folded_);
}

absl::Status FoldedCores::FoldEach(const Step& step) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Core& core = parts_[i];
    const float* g = step.parameters + core.g->offset;
    if (core.d == nullptr) {
      cores_[i] = g;
      continue;
    }
    float* h = folded() + core.offset;
    RETURN_IF_ERROR(plan_.backend->FoldCore(
        ConstMatrix(g, core.rows(), core.cols()), step.Vector(*core.d),
        plan_.config->rank_threshold, Matrix(h, core.rows(), core.cols())));
    cores_[i] = h;
  }
  return absl::OkStatus();
}

absl::Span<float* const> FoldedCores::grad_cores() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    grad_cores_[i] = plan_.sums->Floats(grad_) + parts_[i].offset;
  }
  return grad_cores_;
}

absl::Status FoldedCores::Backward(const Step& step) {
  return kernels::RunTogether(plan_.backend,
                              [&] { return BackwardOfEach(step); });
}

absl::Status FoldedCores::BackwardOfEach(const Step& step) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Core& core = parts_[i];
    if (core.d == nullptr) {
      RETURN_IF_ERROR(plan_.backend->Axpy(1, {grad_cores_[i], core.g->size},
                                          step.Gradient(*core.g)));
      continue;
    }
    const int64_t rows = core.rows(), cols = core.cols();
    RETURN_IF_ERROR(plan_.backend->FoldCoreBackward(
        ConstMatrix(step.parameters + core.g->offset, rows, cols),
        step.Vector(*core.d), plan_.config->rank_threshold,
        ConstMatrix(grad_cores_[i], rows, cols),
        Matrix(step.Gradient(*core.g).data, rows, cols),
        step.Gradient(*core.d)));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
