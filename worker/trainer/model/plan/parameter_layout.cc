// Places parameters, moments and projectors in flat buffers.
#include "worker/trainer/model/plan/parameter_layout.h"

#include <algorithm>
#include <utility>

namespace comera::trainer {

int ParameterLayout::Add(std::string name, std::vector<int64_t> shape,
                         ParameterKind kind, bool in_head,
                         int64_t projection_rank) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.shape = std::move(shape);
  parameter.kind = kind;
  parameter.in_head = in_head;
  parameter.offset = size_;
  parameter.size = 1;
  for (int64_t extent : parameter.shape) parameter.size *= extent;
  size_ += parameter.size;
  if (kind != ParameterKind::kFrozen) {
    trained_size_ = size_;
    parameter.moment_size = parameter.size;
  }
  if (projection_rank > 0) {
    const auto [small, large] =
        std::minmax(parameter.shape[0], parameter.shape[1]);
    parameter.projection_rank = projection_rank;
    parameter.moment_size = large * projection_rank;
    parameter.projector_size = small * projection_rank;
  }
  parameter.moment_offset = moments_size_;
  parameter.projector_offset = projectors_size_;
  moments_size_ += parameter.moment_size;
  projectors_size_ += parameter.projector_size;
  const int index = static_cast<int>(parameters_.size());
  index_[parameter.name] = index;
  parameters_.push_back(std::move(parameter));
  return index;
}

int ParameterLayout::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? -1 : found->second;
}

}  // namespace comera::trainer
