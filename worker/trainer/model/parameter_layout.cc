#include "worker/trainer/model/parameter_layout.h"

#include <utility>

namespace comera::trainer {

int ParameterLayout::Add(std::string name, std::vector<int64_t> shape,
                         ParameterKind kind, bool in_head) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.shape = std::move(shape);
  parameter.kind = kind;
  parameter.in_head = in_head;
  parameter.offset = size_;
  parameter.size = 1;
  for (int64_t extent : parameter.shape) parameter.size *= extent;
  size_ += parameter.size;
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
