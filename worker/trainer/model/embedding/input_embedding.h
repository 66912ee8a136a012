#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_INPUT_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_INPUT_EMBEDDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/embedding/token_lookup.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// dropout(LayerNorm(word + position + segment)): token ids to the residual
// stream (rows, hidden) of an encoder.
class InputEmbedding {
 public:
  explicit InputEmbedding(const Plan& plan);

  // Copies ids and segments of the tokens to the device; `packed` is the packed
  // form of `batch`. `pad`: pads to as many words as so many tokens can have.
  // InvalidArgument: an id or a segment out of range, wrong sizes.
  absl::Status SetBatch(const Batch& batch, const PackedBatch& packed,
                        bool pad);
  // See Model::AppendShape; describes the last SetBatch.
  void AppendShape(std::vector<int64_t>* shape) const;

  absl::Status Forward(const Step& step, kernels::Matrix y);
  // Computes the y of the last Forward again.
  absl::Status Output(const Step& step, kernels::Matrix y) const;
  // Overwrites grad.
  absl::Status Backward(const Step& step, kernels::Matrix grad);

 private:
  kernels::DropoutKey Dropout(const Step& step) const;
  kernels::Matrix PositionSegment(const Step& step, float* table,
                                  int64_t segment) const;

  const Plan plan_;
  const int64_t hidden_;
  TokenLookup words_;
  const Parameter &position_, &segment_, &gamma_, &beta_;
  // Rows of the tokens in the table of position + segment.
  std::vector<int32_t> place_rows_;
  SavedMemory::Piece place_index_, normalised_, deviation_;
  Workspace::Piece table_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_INPUT_EMBEDDING_H_
