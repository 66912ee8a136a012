#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/input_embedding.h"
#include "worker/trainer/model/encoder/attention_block.h"
#include "worker/trainer/model/encoder/ffn_block.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Input embedding and post-norm transformer blocks, from token ids to the
// residual stream (rows, hidden). The stream is one matrix that every half of a
// block changes in place, and so is its gradient. In a backward pass the memory
// of the stream holds the recomputed input of a half, where that is needed.
class Encoder {
 public:
  // Stages of the step's memory that an encoder takes, from 0 on.
  static int Stages(const ModelConfig& config) {
    return static_cast<int>(1 + 2 * config.layers);
  }
  explicit Encoder(const Plan& plan);

  // Copies the tokens of the batch to the device and fills in *step, whose
  // train, padded and state are given. InvalidArgument: malformed batch.
  absl::Status SetBatch(const Batch& batch, Step* step);
  // See Model::AppendShape; `step` is the one that the last SetBatch filled in.
  void AppendShape(const Step& step, std::vector<int64_t>* shape) const;
  // The batch of the last SetBatch, padding included.
  const PackedBatch& packed() const { return packed_; }
  absl::Status Forward(const Step& step);
  // The stream after the last block, valid until Backward.
  kernels::ConstMatrix output(int64_t rows) const;
  // The gradient of output, which the head writes whole before Backward.
  kernels::Matrix grad_output(int64_t rows) const;
  // All pieces below: the halves of the blocks from the last one to 0, then the
  // embedding.
  absl::Status Backward(const Step& step);
  int halves() const { return static_cast<int>(2 * ffn_.size()); }
  // The attention of block half / 2 where `half` is even, else its feed-forward
  // branch. Reads the parameters of this half and the LayerNorm of the half, or
  // embedding, before it.
  absl::Status BackwardHalf(const Step& step, int half);
  absl::Status BackwardEmbedding(const Step& step);

 private:
  kernels::Matrix Stream(int64_t rows) const;

  const Plan plan_;
  InputEmbedding embedding_;
  std::vector<std::unique_ptr<AttentionBlock>> attention_;
  std::vector<std::unique_ptr<FfnBlock>> ffn_;
  PackedBatch packed_;
  LteHeadRuns head_runs_;
  SavedMemory::Piece offsets_, row_ids_;
  SavedMemory::Piece stream_, grad_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_H_
