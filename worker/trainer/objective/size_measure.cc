// Measures a model's size and its relaxation from the rank entries.
#include "worker/trainer/objective/size_measure.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<SizeMeasure>> SizeMeasure::Create(
    const std::vector<TensorisedLayer>& layers, const ParameterLayout& layout,
    float threshold, kernels::Backend* backend) {
  std::unique_ptr<SizeMeasure> measure(new SizeMeasure(threshold, backend));
  for (const TensorisedLayer& layer : layers) {
    if (layer.modes.empty() || layer.bonds.size() + 1 != layer.modes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", layer.name, ": ", layer.modes.size(),
                       " modes, ", layer.bonds.size(), " bonds"));
    }
    Layer entry;
    entry.modes.assign(layer.modes.begin(), layer.modes.end());
    entry.first_bond = measure->bonds_.size();
    for (int bond : layer.bonds) {
      measure->bonds_.push_back({layout[bond].offset, layout[bond].size});
    }
    measure->layers_.push_back(std::move(entry));
  }
  const int64_t bytes = measure->bonds_.size() * sizeof(float);
  measure->norms_piece_ = measure->arena_.Reserve("bond norms", 2 * bytes);
  measure->coefficients_piece_ =
      measure->arena_.Reserve("bond coefficients", bytes);
  measure->size_bonds_piece_ = measure->arena_.Reserve(
      "bonds",
      static_cast<int64_t>(measure->bonds_.size() * sizeof(kernels::SizeBond)));
  RETURN_IF_ERROR(measure->arena_.Commit());
  measure->norms_.resize(2 * measure->bonds_.size());
  const std::vector<kernels::SizeBond> bonds = measure->SizeBonds();
  RETURN_IF_ERROR(backend->CopyToDevice(
      measure->arena_.Address(measure->size_bonds_piece_), bonds.data(),
      static_cast<int64_t>(bonds.size() * sizeof(kernels::SizeBond))));
  return measure;
}

double SizeMeasure::Norm(const Layer& layer, size_t i, const float* norms) {
  if (i == 0 || i == layer.modes.size()) return 1;
  return norms[layer.first_bond + i - 1];
}

bool SizeMeasure::Pruned(const Layer& layer, const float* counts) {
  for (size_t i = 1; i < layer.modes.size(); ++i) {
    if (counts[layer.first_bond + i - 1] == 0) return true;
  }
  return false;
}

kernels::ConstVector SizeMeasure::norms() const {
  return {arena_.Floats(norms_piece_), static_cast<int64_t>(norms_.size())};
}

absl::Status SizeMeasure::EnqueueNorms(kernels::ConstVector parameters) {
  if (bonds_.empty()) return absl::OkStatus();
  float* l1 = arena_.Floats(norms_piece_);
  return backend_->BondNorms(parameters, bonds_, threshold_, l1,
                             l1 + bonds_.size());
}

absl::StatusOr<SizeMeasure::Sizes> SizeMeasure::Measure(
    kernels::ConstVector parameters) {
  RETURN_IF_ERROR(EnqueueNorms(parameters));
  RETURN_IF_ERROR(backend_->CopyToHost(norms_.data(), norms().data,
                                       norms_.size() * sizeof(float)));
  return SizesOf(norms_.data());
}

SizeMeasure::Sizes SizeMeasure::SizesOf(const float* norms) const {
  Sizes sizes;
  const float* l1 = norms;
  const float* count = norms + bonds_.size();
  for (size_t i = 0; i < bonds_.size(); ++i) {
    sizes.alive_sum += l1[i];
    sizes.alive_entries += count[i];
  }
  for (const Layer& layer : layers_) {
    if (Pruned(layer, count)) continue;
    for (size_t i = 0; i < layer.modes.size(); ++i) {
      sizes.counted +=
          layer.modes[i] * Norm(layer, i, count) * Norm(layer, i + 1, count);
      sizes.relaxed +=
          layer.modes[i] * Norm(layer, i, l1) * Norm(layer, i + 1, l1);
    }
  }
  return sizes;
}

std::vector<kernels::SizeBond> SizeMeasure::SizeBonds() const {
  std::vector<kernels::SizeBond> bonds;
  for (const Layer& layer : layers_) {
    const int32_t first = static_cast<int32_t>(layer.first_bond);
    const int32_t last = first + static_cast<int32_t>(layer.modes.size()) - 1;
    // Bond i is in the terms of the core on its left and on its right.
    for (int32_t i = first; i < last; ++i) {
      kernels::SizeBond bond;
      bond.left_mode = static_cast<float>(layer.modes[i - first]);
      bond.right_mode = static_cast<float>(layer.modes[i - first + 1]);
      bond.left = i == first ? -1 : i - 1;
      bond.right = i + 1 == last ? -1 : i + 1;
      bond.first = first;
      bond.last = last;
      bonds.push_back(bond);
    }
  }
  return bonds;
}

absl::StatusOr<const float*> SizeMeasure::RelaxedGradient(double factor) {
  float* coefficients = arena_.Floats(coefficients_piece_);
  RETURN_IF_ERROR(backend_->RelaxedSizeGradient(
      static_cast<const kernels::SizeBond*>(arena_.Address(size_bonds_piece_)),
      static_cast<int64_t>(bonds_.size()), norms().data,
      norms().data + bonds_.size(), static_cast<float>(factor), coefficients));
  return coefficients;
}

absl::StatusOr<const float*> SizeMeasure::EqualGradient(double value) {
  float* coefficients = arena_.Floats(coefficients_piece_);
  RETURN_IF_ERROR(
      backend_->Fill({coefficients, static_cast<int64_t>(bonds_.size())},
                     static_cast<float>(value)));
  return coefficients;
}

}  // namespace comera::trainer
