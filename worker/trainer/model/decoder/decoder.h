#ifndef COMERA_WORKER_TRAINER_MODEL_DECODER_DECODER_H_
#define COMERA_WORKER_TRAINER_MODEL_DECODER_DECODER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/decoder/pre_norm_block.h"
#include "worker/trainer/model/embedding/decoder_embedding.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/transformer_body.h"

namespace comera::trainer {

// The body of a LLaMA (arXiv 2302.13971) or GPT-2: pre-norm blocks, in which
// every token attends to itself and those before it in its document.
class Decoder : public TransformerBody {
 public:
  explicit Decoder(const Plan& plan);

  absl::Status Contract(const Step& step) override;
  absl::Status Forward(const Step& step) override;
  // Reads the parameters of this half only.
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

  DecoderEmbedding embedding_;
  std::vector<std::unique_ptr<PreNormBlock>> halves_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DECODER_DECODER_H_
