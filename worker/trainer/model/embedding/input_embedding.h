#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_INPUT_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_INPUT_EMBEDDING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/embedding/word_embedding.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::trainer {

// dropout(LayerNorm(word + position + segment)): token ids to the residual
// stream (rows, hidden). Words are looked up once per distinct id of a batch.
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
  std::unique_ptr<WordEmbedding> words_;
  const Parameter &position_, &segment_, &gamma_, &beta_;
  UniqueIds unique_;
  int64_t words_count_ = 0;          // rows of words_, padding included
  std::vector<int32_t> ids_;         // one per token
  std::vector<int32_t> place_rows_;  // in the table of position + segment
  // The word of each token among the distinct ones; the tokens by word, and
  // where each word's tokens begin.
  SavedMemory::Piece word_index_, word_tokens_, word_start_, place_index_;
  SavedMemory::Piece normalised_, deviation_;
  Workspace::Piece unique_table_, table_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_INPUT_EMBEDDING_H_
