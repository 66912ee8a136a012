#ifndef COMERA_WORKER_TRAINER_MODEL_DECODER_DECODER_MODEL_H_
#define COMERA_WORKER_TRAINER_MODEL_DECODER_DECODER_MODEL_H_

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/decoder/decoder.h"
#include "worker/trainer/model/transformer/transformer_model.h"

namespace comera::trainer {

// A Model made of a decoder and the projection to the vocabulary.
class DecoderModel : public TransformerModel {
 public:
  // The arguments are those of TransformerModel.
  DecoderModel(const ModelConfig& config, int64_t batch_size,
               kernels::Backend* backend)
      : TransformerModel(config, batch_size, backend, [](const Plan& plan) {
          return std::make_unique<Decoder>(plan);
        }) {}
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DECODER_DECODER_MODEL_H_
