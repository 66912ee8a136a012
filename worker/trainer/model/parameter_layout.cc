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
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

int ParameterLayout::Find(const std::string& name) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace comera::trainer
