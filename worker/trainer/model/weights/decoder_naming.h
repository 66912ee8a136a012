#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DECODER_NAMING_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DECODER_NAMING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/model/weights/checkpoint_tensors.h"
#include "worker/trainer/model/weights/tensor_naming.h"

namespace comera::trainer {

// The names of LLaMA checkpoints (Mistral's are the same) and of GPT-2's as the
// transformers library writes them. A prefix may come before the decoder's
// names, "model." and "transformer." as a rule, and none where it was saved
// without its head. An output projection that is not there shares the word
// embedding. GPT-2's matrices are (inputs, outputs), and query, key and value
// are one.
std::unique_ptr<TensorNaming> MakeDecoderNaming(
    v1::ModelSpec::Architecture architecture, const std::string& prefix);

// The naming that a checkpoint has. InvalidArgument: it has no word embedding
// of this architecture, or more than one.
absl::StatusOr<std::unique_ptr<TensorNaming>> FindDecoderNaming(
    const CheckpointTensors& tensors, v1::ModelSpec::Architecture architecture);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_DECODER_NAMING_H_
