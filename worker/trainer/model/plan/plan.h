// The memory and the step that every layer of a model is planned for.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_PLAN_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "kernels/memory_plan.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

class ExpandedTable;

// A step runs the stages of a model forward, 0 to stages - 1, and then back.
// Stage i is phase i of the memory's schedule, and 2 stages - 1 - i going back.

// Memory whose contents last from one phase to another.
class SavedMemory {
 public:
  using Piece = kernels::MemoryPlan::Piece;

  SavedMemory(kernels::MemoryPlan* memory, kernels::PhaseSpan span)
      : memory_(memory), span_(span) {}

  Piece Reserve(const std::string& name, int64_t bytes) {
    return memory_->Reserve(name, bytes, {span_});
  }
  void* Address(Piece piece) const { return memory_->Address(piece); }
  float* Floats(Piece piece) const { return memory_->Floats(piece); }
  int32_t* Ints(Piece piece) const { return memory_->Ints(piece); }
  uint16_t* Bf16(Piece piece) const {
    return static_cast<uint16_t*>(memory_->Address(piece));
  }

 private:
  kernels::MemoryPlan* const memory_;
  const kernels::PhaseSpan span_;
};

// Scratch memory, as a rule of one stage: pieces reserved under one name are
// the same memory, as large as the largest. Contents last only until another
// layer of the stage runs, and never from one span to another: stages share
// memory.
class Workspace {
 public:
  using Piece = kernels::MemoryPlan::Piece;

  // Without `shared` every piece is memory of its own, whose contents last.
  Workspace(kernels::MemoryPlan* memory, std::vector<kernels::PhaseSpan> spans,
            bool shared = true)
      : memory_(memory), spans_(std::move(spans)), shared_(shared) {}

  Piece Reserve(const std::string& name, int64_t bytes);
  float* Floats(Piece piece) const { return memory_->Floats(piece); }
  uint16_t* Bf16(Piece piece) const {
    return static_cast<uint16_t*>(memory_->Address(piece));
  }
  bool shared() const { return shared_; }

 private:
  kernels::MemoryPlan* const memory_;
  const std::vector<kernels::PhaseSpan> spans_;
  const bool shared_;
  std::map<std::string, Piece> pieces_;
};

// The activations and scratch memory of a model: one allocation that pieces
// share by lifetime.
class StepMemory {
 public:
  // `finish_last`: the layers' FinishBackward follows the backward phases of
  // all stages, not that of its own.
  StepMemory(kernels::Backend* backend, int stages, bool finish_last = false);

  // Memory that lives from the stage's forward to its backward phase.
  SavedMemory* saved(int stage) { return &saved_[stage]; }
  Workspace* workspace(int stage) { return &workspaces_[stage]; }
  // Sums over the rows of a step that FinishBackward takes, and its scratch
  // memory: from the stage's backward phase until FinishBackward or, with
  // `finish_last`, in all backward phases.
  Workspace* sums(int stage) { return &sums_[stage]; }
  // Memory that lives in all phases, and while a batch is set and results are
  // read.
  SavedMemory* whole() { return &whole_; }
  // Memory of whole() whose floats are `value` until they are written.
  SavedMemory::Piece ReserveFilled(const std::string& name, int64_t bytes,
                                   float value) {
    const SavedMemory::Piece piece = whole_.Reserve(name, bytes);
    memory_.FillAtStart(piece, value);
    return piece;
  }
  // Memory that lives in all backward phases.
  SavedMemory* gradients() { return &gradients_; }
  // Folded cores and intermediate products of them. In the host's memory all
  // layers share it, so that a layer computes them again before it reads them
  // later; on a device, where small operations of all layers run together, each
  // layer has its own, which lasts through the step.
  Workspace* contraction() { return &contraction_; }

  absl::Status Commit() { return memory_.Commit(); }
  int64_t bytes() const { return memory_.bytes(); }

 private:
  kernels::MemoryPlan memory_;
  std::vector<SavedMemory> saved_;
  std::vector<Workspace> workspaces_, sums_;
  SavedMemory whole_, gradients_;
  Workspace contraction_;
};

// Handed to every layer's constructor, which reserves its memory. All pointers
// outlive the layers.
struct Plan {
  kernels::Backend* backend = nullptr;
  StepMemory* memory = nullptr;
  SavedMemory* saved = nullptr;  // the stage's, as are the next two
  Workspace* workspace = nullptr;
  Workspace* sums = nullptr;
  const ModelConfig* config = nullptr;
  const ModelLayout* layout = nullptr;
  int64_t max_batch = 0;
  int64_t max_rows = 0;  // tokens: max_batch * config->length

  // Sequences of a batch, padding included: samples of an encoder, documents of
  // a decoder, of which every token may be one.
  int64_t max_sequences = 0;

  // Layers with factors reserve no memory for rows: their users keep T and U
  // (RankSpaceLinear) in bfloat16.
  bool rows_elsewhere = false;

  // The word table that input and output share; null where it is not expanded.
  ExpandedTable* table = nullptr;

  // The same plan for the layers of another stage.
  Plan AtStage(int stage) const {
    Plan plan = *this;
    plan.saved = memory->saved(stage);
    plan.workspace = memory->workspace(stage);
    plan.sums = memory->sums(stage);
    return plan;
  }

  const Parameter& At(const std::string& name) const {
    return layout->parameters[layout->parameters.Find(name)];
  }
  // Null: there is none of this name.
  const Parameter* Find(const std::string& name) const {
    const int index = layout->parameters.Find(name);
    return index < 0 ? nullptr : &layout->parameters[index];
  }
};

// One Forward, or the Backward that follows.
struct Step {
  const float* parameters = nullptr;
  // Backward only: the gradients from float `first_gradient` of the layout on;
  // `first_gradient` is 0 unless gradients are in memory block by block
  // (gradient_blocks.h).
  float* gradients = nullptr;
  int64_t first_gradient = 0;
  // The gradients of `kept`, if they lie apart from those of the block.
  float* kept_gradients = nullptr;
  ParameterRange kept;
  bool train = false;
  bool padded = false;  // the batch is padded to a bucket (batch_padding.h)
  const kernels::StepState* state = nullptr;
  // The batch as PackedBatch has it; lists are memory of the backend.
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t max_length = 0;
  kernels::ConstIndices offsets;
  const int32_t* row_ids = nullptr;
  kernels::ConstIndices positions;  // causal: tokens' places in their documents
  int64_t first_row = 0;  // sample 0's in the global batch, see row_ids
  int64_t length = 0;     // a sample's in the unpacked batch
  int64_t rows() const { return tokens; }

  // Key of dropout `site` of token matrices; no dropout outside training.
  kernels::DropoutKey Dropout(float rate, uint32_t site) const {
    return {train ? rate : 0.0f, site, first_row, state, row_ids};
  }

  kernels::ConstVector Vector(const Parameter& p) const {
    return {parameters + p.offset, p.size};
  }
  kernels::Vector Gradient(const Parameter& p) const {
    if (kept_gradients != nullptr && kept.Holds(p)) {
      return {kept_gradients + (p.offset - kept.first), p.size};
    }
    return {gradients + (p.offset - first_gradient), p.size};
  }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_PLAN_H_
