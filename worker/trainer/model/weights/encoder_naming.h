#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_ENCODER_NAMING_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_ENCODER_NAMING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/trainer/model/weights/checkpoint_tensors.h"
#include "worker/trainer/model/weights/tensor_naming.h"

namespace comera::trainer {

// The names of BERT and RoBERTa checkpoints as the transformers library writes
// them: a prefix such as "bert." may come before the encoder's names,
// LayerNorms have weight and bias or gamma and beta, a masked-LM projection
// that shares the word embedding is left out. RoBERTa's position table starts
// with two rows that no token uses.
//
// InvalidArgument: no word embedding under a known name, or more than one.
absl::StatusOr<std::unique_ptr<TensorNaming>> FindEncoderNaming(
    CheckpointTensors* tensors);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_ENCODER_NAMING_H_
