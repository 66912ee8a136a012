// Reserves the activations and scratch memory of a model's stages.
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

Workspace::Piece Workspace::Reserve(const std::string& name, int64_t bytes) {
  const auto found = pieces_.find(name);
  if (found != pieces_.end()) {
    memory_->Enlarge(found->second, bytes);
    return found->second;
  }
  const Piece piece = memory_->Reserve(
      name, bytes, {{forward_, forward_}, {backward_, backward_}});
  pieces_[name] = piece;
  return piece;
}

StepMemory::StepMemory(kernels::Backend* backend, int stages)
    : memory_(backend),
      whole_(&memory_, {0, 2 * stages - 1}),
      gradients_(&memory_, {stages, 2 * stages - 1}) {
  for (int i = 0; i < stages; ++i) {
    const int backward = 2 * stages - 1 - i;
    saved_.emplace_back(&memory_, kernels::PhaseSpan{i, backward});
    workspaces_.emplace_back(&memory_, i, backward);
  }
}

}  // namespace comera::trainer
