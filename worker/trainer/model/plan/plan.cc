// Reserves the activations and scratch memory of a model's stages.
#include "worker/trainer/model/plan/plan.h"

#include <vector>

namespace comera::trainer {

Workspace::Piece Workspace::Reserve(const std::string& name, int64_t bytes) {
  const auto found = shared_ ? pieces_.find(name) : pieces_.end();
  if (found != pieces_.end()) {
    memory_->Enlarge(found->second, bytes);
    return found->second;
  }
  const Piece piece = memory_->Reserve(name, bytes, spans_);
  pieces_[name] = piece;
  return piece;
}

StepMemory::StepMemory(kernels::Backend* backend, int stages, bool finish_last)
    : memory_(backend),
      whole_(&memory_, {0, 2 * stages - 1}),
      gradients_(&memory_, {stages, 2 * stages - 1}),
      contraction_(&memory_, {{0, 2 * stages - 1}},
                   /*shared=*/backend->in_host_memory()) {
  for (int i = 0; i < stages; ++i) {
    const int last = 2 * stages - 1, backward = last - i;
    saved_.emplace_back(&memory_, kernels::PhaseSpan{i, backward});
    workspaces_.emplace_back(&memory_, std::vector<kernels::PhaseSpan>{
                                           {i, i}, {backward, backward}});
    sums_.emplace_back(
        &memory_,
        std::vector<kernels::PhaseSpan>{
            finish_last ? kernels::PhaseSpan{stages, last}
                        : kernels::PhaseSpan{backward, backward}},
        /*shared=*/!finish_last);
  }
}

}  // namespace comera::trainer
