// Causal language models as the transformers library keeps them.
#ifndef COMERA_WORKER_TRAINER_EXPORT_HF_DECODER_H_
#define COMERA_WORKER_TRAINER_EXPORT_HF_DECODER_H_

#include <string>

#include "absl/status/status.h"
#include "common/safetensors.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/export.h"

namespace comera::trainer {

// Adds the parameters of a dense decoder under the names of LlamaForCausalLM or
// GPT2LMHeadModel; a tied output projection is left out. InvalidArgument: a
// parameter has no name there.
absl::Status AddDecoderTensors(const ImportedModel& dense, Safetensors* file);

// The token that a text without any begins with: where the vocabulary has none
// for that, the end of the document before; null where it has neither.
nlohmann::ordered_json FirstToken(const Tokenizer& tokenizer);

// Texts of config.json and generation_config.json. A document that ends with no
// token of its own has none there either.
std::string DecoderConfigText(const ModelConfig& config,
                              const Tokenizer& tokenizer);
std::string GenerationConfigText(const Tokenizer& tokenizer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_HF_DECODER_H_
