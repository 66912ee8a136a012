#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/embedding/input_embedding.h"
#include "worker/trainer/model/encoder/attention_block.h"
#include "worker/trainer/model/encoder/ffn_block.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/transformer_body.h"

namespace comera::trainer {

// The body of a BERT: post-norm blocks, in which every token attends to all of
// its sample.
class Encoder : public TransformerBody {
 public:
  explicit Encoder(const Plan& plan);

  absl::Status Contract(const Step& step) override;
  absl::Status Forward(const Step& step) override;
  absl::Status BeginBackward() override;
  // Reads the parameters of this half and the LayerNorm of the half, or
  // embedding, before it.
  absl::Status BackwardHalf(const Step& step, int half) override;
  absl::Status FinishHalf(const Step& step, int half) override;
  absl::Status BackwardEmbedding(const Step& step) override;

 private:
  absl::Status SetTokens(const Batch& batch, const PackedBatch& packed,
                         bool pad) override {
    return embedding_.SetBatch(batch, packed, pad);
  }
  void AppendTokens(std::vector<int64_t>* shape) const override {
    embedding_.AppendShape(shape);
  }

  InputEmbedding embedding_;
  std::vector<std::unique_ptr<AttentionBlock>> attention_;
  std::vector<std::unique_ptr<FfnBlock>> ffn_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_H_
