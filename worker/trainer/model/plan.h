// What a layer needs while it is planned, and while it runs.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/model/model_layout.h"

namespace comera::trainer {

// Scratch memory: pieces reserved under one name are the same memory, as large
// as the largest. Contents last only until another layer runs.
class Workspace {
 public:
  using Piece = kernels::Arena::Piece;

  explicit Workspace(kernels::Backend* backend) : arena_(backend) {}

  Piece Reserve(const std::string& name, int64_t bytes);
  absl::Status Commit();
  float* Floats(Piece piece) const { return arena_.Floats(pieces_[piece]); }
  int64_t bytes() const { return arena_.bytes(); }

 private:
  kernels::Arena arena_;
  std::map<std::string, Piece> index_;
  std::vector<std::pair<std::string, int64_t>> wanted_;
  std::vector<kernels::Arena::Piece> pieces_;  // after Commit
};

// Handed to every layer's constructor, which reserves its memory. All pointers
// outlive the layers.
struct Plan {
  kernels::Backend* backend = nullptr;
  kernels::Arena* saved = nullptr;  // lives from Forward to Backward
  Workspace* workspace = nullptr;
  const ModelConfig* config = nullptr;
  const ModelLayout* layout = nullptr;
  int64_t max_batch = 0;
  int64_t max_rows = 0;  // tokens: max_batch * config->length

  const Parameter& At(const std::string& name) const {
    return layout->parameters[layout->parameters.Find(name)];
  }
};

// One Forward, or the Backward that follows.
struct Step {
  const float* parameters = nullptr;
  float* gradients = nullptr;  // Backward only
  bool train = false;
  const kernels::StepState* state = nullptr;
  int64_t batch = 0;
  int64_t length = 0;
  int64_t first_sample = 0;
  int64_t rows() const { return batch * length; }

  // Key of dropout `site` for rows counted from first_row; no dropout outside
  // training.
  kernels::DropoutKey Dropout(float rate, uint32_t site,
                              int64_t first_row) const {
    return {train ? rate : 0.0f, site, first_row, state};
  }

  kernels::ConstVector Vector(const Parameter& p) const {
    return {parameters + p.offset, p.size};
  }
  kernels::Vector Gradient(const Parameter& p) const {
    return {gradients + p.offset, p.size};
  }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_H_
