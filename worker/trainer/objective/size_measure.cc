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
  measure->l1_piece_ = measure->arena_.Reserve("bond l1 norms", bytes);
  measure->count_piece_ = measure->arena_.Reserve("bond counts", bytes);
  measure->coefficients_piece_ =
      measure->arena_.Reserve("bond coefficients", bytes);
  measure->size_bonds_piece_ = measure->arena_.Reserve(
      "bonds",
      static_cast<int64_t>(measure->bonds_.size() * sizeof(kernels::SizeBond)));
  RETURN_IF_ERROR(measure->arena_.Commit());
  measure->l1_.resize(measure->bonds_.size());
  measure->count_.resize(measure->bonds_.size());
  const std::vector<kernels::SizeBond> bonds = measure->SizeBonds();
  RETURN_IF_ERROR(backend->CopyToDevice(
      measure->arena_.Address(measure->size_bonds_piece_), bonds.data(),
      static_cast<int64_t>(bonds.size() * sizeof(kernels::SizeBond))));
  return measure;
}

double SizeMeasure::Norm(const Layer& layer, size_t i,
                         const std::vector<float>& norms) {
  if (i == 0 || i == layer.modes.size()) return 1;
  return norms[layer.first_bond + i - 1];
}

bool SizeMeasure::Gone(const Layer& layer) const {
  for (size_t i = 1; i < layer.modes.size(); ++i) {
    if (count_[layer.first_bond + i - 1] == 0) return true;
  }
  return false;
}

absl::StatusOr<SizeMeasure::Sizes> SizeMeasure::Measure(
    kernels::ConstVector parameters) {
  Sizes sizes;
  if (bonds_.empty()) return sizes;
  float* l1 = arena_.Floats(l1_piece_);
  float* count = arena_.Floats(count_piece_);
  RETURN_IF_ERROR(
      backend_->BondNorms(parameters, bonds_, threshold_, l1, count));
  const int64_t bytes = bonds_.size() * sizeof(float);
  RETURN_IF_ERROR(backend_->CopyToHost(l1_.data(), l1, bytes));
  RETURN_IF_ERROR(backend_->CopyToHost(count_.data(), count, bytes));
  for (size_t i = 0; i < bonds_.size(); ++i) {
    sizes.alive_sum += l1_[i];
    sizes.alive_entries += count_[i];
  }
  for (const Layer& layer : layers_) {
    if (Gone(layer)) continue;
    for (size_t i = 0; i < layer.modes.size(); ++i) {
      sizes.counted +=
          layer.modes[i] * Norm(layer, i, count_) * Norm(layer, i + 1, count_);
      sizes.relaxed +=
          layer.modes[i] * Norm(layer, i, l1_) * Norm(layer, i + 1, l1_);
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
      static_cast<int64_t>(bonds_.size()), arena_.Floats(l1_piece_),
      arena_.Floats(count_piece_), static_cast<float>(factor), coefficients));
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
