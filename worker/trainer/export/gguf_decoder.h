// Causal language models as llama.cpp keeps them.
#ifndef COMERA_WORKER_TRAINER_EXPORT_GGUF_DECODER_H_
#define COMERA_WORKER_TRAINER_EXPORT_GGUF_DECODER_H_

#include "absl/status/status.h"
#include "worker/trainer/export/gguf_file.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {

// Adds the sizes of a decoder under the keys of llama.cpp's architectures llama
// and gpt2.
void AddDecoderSizes(const ModelConfig& config, GgufFile* file);

// Adds the parameters of a dense decoder under llama.cpp's names. Matrices are
// of `weights`, or of float16 where their rows are no whole blocks; what has
// one dimension and GPT-2's positions are float32. A tied output projection is
// left out. The rows of a LLaMA's queries and keys are put in pairs, since
// llama.cpp turns neighbours where we turn halves of a head.
//
// OutOfRange names a tensor with a value that the numbers do not hold.
absl::Status AddDecoderWeights(const ImportedModel& dense, GgufNumber weights,
                               GgufFile* file);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_GGUF_DECODER_H_
