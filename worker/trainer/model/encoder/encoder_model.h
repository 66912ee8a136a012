#ifndef COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_MODEL_H_
#define COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_MODEL_H_

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/encoder/bf16_encoder.h"
#include "worker/trainer/model/encoder/branch_form.h"
#include "worker/trainer/model/encoder/encoder.h"
#include "worker/trainer/model/transformer/transformer_model.h"

namespace comera::trainer {

// A Model made of an encoder and either of its heads.
class EncoderModel : public TransformerModel {
 public:
  // The arguments are those of TransformerModel.
  EncoderModel(const ModelConfig& config, int64_t batch_size,
               kernels::Backend* backend)
      : TransformerModel(config, batch_size, backend, MakeEncoder) {}

 private:
  static std::unique_ptr<TransformerBody> MakeEncoder(const Plan& plan) {
    if (HasBf16Stream(plan)) return std::make_unique<Bf16Encoder>(plan);
    return std::make_unique<Encoder>(plan);
  }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ENCODER_ENCODER_MODEL_H_
