#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_DECODER_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_DECODER_EMBEDDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/embedding/token_lookup.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// dropout(word + position): token ids to the residual stream (rows, hidden).
// The positions are those of the parameter decoder.embedding.position
// (max_positions, hidden), if there is one; a LLaMA has none.
class DecoderEmbedding {
 public:
  explicit DecoderEmbedding(const Plan& plan);

  // These two are TokenLookup's.
  absl::Status SetBatch(const Batch& batch, const PackedBatch& packed,
                        bool pad) {
    return words_.SetBatch(batch, packed, pad);
  }
  void AppendShape(std::vector<int64_t>* shape) const {
    words_.AppendShape(shape);
  }

  absl::Status Forward(const Step& step, kernels::Matrix y);
  // Overwrites grad.
  absl::Status Backward(const Step& step, kernels::Matrix grad);

 private:
  absl::Status AddPositions(const Step& step, kernels::Matrix y) const;
  absl::Status Dropout(const Step& step, kernels::Matrix x) const;

  const Plan plan_;
  TokenLookup words_;
  const Parameter* const position_;  // null: none
  Workspace::Piece rows_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_DECODER_EMBEDDING_H_
