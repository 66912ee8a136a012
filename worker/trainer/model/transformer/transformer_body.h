#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_TRANSFORMER_BODY_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_TRANSFORMER_BODY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/batch_rows.h"

namespace comera::trainer {

// Input embedding and transformer blocks, from token ids to the residual stream
// (rows, hidden). The stream is one matrix that every half of a block changes
// in place, and so is its gradient. In a backward pass the memory of the stream
// holds the recomputed input of a half, where that is needed.
//
// A step: SetBatch, Contract, Forward, and in training the pieces of the
// backward pass: the halves of the blocks from the last one to 0, then the
// embedding.
class TransformerBody {
 public:
  virtual ~TransformerBody() = default;

  // Stages of the step's memory that a body takes, from 0 on: the embedding,
  // then each half.
  static int Stages(const ModelConfig& config) {
    return static_cast<int>(1 + 2 * config.layers);
  }

  // Copies the tokens of the batch to the device and fills in *step, whose
  // train, padded and state are given. InvalidArgument: malformed batch.
  absl::Status SetBatch(const Batch& batch, Step* step);
  // See Model::AppendShape; `step` is the one that the last SetBatch filled in.
  void AppendShape(const Step& step, std::vector<int64_t>* shape) const;
  // The batch of the last SetBatch, padding included.
  const PackedBatch& packed() const { return rows_.packed(); }

  // Branch::Contract of all halves, before Forward.
  virtual absl::Status Contract(const Step& step) = 0;
  virtual absl::Status Forward(const Step& step) = 0;
  // The stream after the last block, valid until the first piece of the
  // backward pass.
  kernels::ConstMatrix output(int64_t rows) const { return Stream(rows); }
  // The gradient of output, which the head writes whole before that.
  kernels::Matrix grad_output(int64_t rows) const;
  // Branch::BeginBackward of all halves, before the pieces of the backward
  // pass, where the sums of all are memory of their own.
  virtual absl::Status BeginBackward() { return absl::OkStatus(); }
  int halves() const { return static_cast<int>(2 * plan_.config->layers); }
  // The attention of block half / 2 where `half` is even, else its feed-forward
  // branch.
  virtual absl::Status BackwardHalf(const Step& step, int half) = 0;
  // Branch::FinishBackward, at any time after BackwardHalf.
  virtual absl::Status FinishHalf(const Step& step, int half) = 0;
  virtual absl::Status BackwardEmbedding(const Step& step) = 0;

 protected:
  explicit TransformerBody(const Plan& plan);

  const Plan& plan() const { return plan_; }
  const LteHeadRuns& head_runs() const { return rows_.head_runs(); }
  kernels::Matrix Stream(int64_t rows) const;

 private:
  // The embedding's part of SetBatch and of AppendShape.
  virtual absl::Status SetTokens(const Batch& batch, const PackedBatch& packed,
                                 bool pad) = 0;
  virtual void AppendTokens(std::vector<int64_t>* shape) const = 0;

  const Plan plan_;
  BatchRows rows_;
  SavedMemory::Piece stream_, grad_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_TRANSFORMER_BODY_H_
