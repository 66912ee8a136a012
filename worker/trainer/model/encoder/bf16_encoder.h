#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_ENCODER_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_ENCODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/embedding/input_embedding.h"
#include "worker/trainer/model/encoder/bf16_block.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/transformer/transformer_body.h"

namespace comera::trainer {

// An Encoder whose residual stream is bfloat16 between the input embedding and
// the output, which are float32.
class Bf16Encoder : public TransformerBody {
 public:
  explicit Bf16Encoder(const Plan& plan);

  absl::Status Contract(const Step& step) override;
  absl::Status Forward(const Step& step) override;
  absl::Status BeginBackward() override;
  // Reads what Encoder::BackwardHalf reads.
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
  kernels::Bf16Matrix Rounded(int64_t rows) const;
  kernels::Bf16Matrix RoundedGrad(int64_t rows) const;

  InputEmbedding embedding_;
  std::vector<std::unique_ptr<Bf16Block>> halves_;
  SavedMemory::Piece stream_, grad_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_BF16_ENCODER_H_
