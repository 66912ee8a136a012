// The layers of a model that can be factorised, in the order of the parameters.
#ifndef COMERA_WORKER_TRAINER_MODEL_CONFIG_LAYER_TABLE_H_
#define COMERA_WORKER_TRAINER_MODEL_CONFIG_LAYER_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

struct FactorisableLayer {
  std::string key;   // in ModelConfig::layers_by_name
  std::string name;  // prefix of its parameters
  // embedding attention ffn_up (of a LLaMA's gate too) ffn_down head output;
  // DLRM: table mlp
  std::string layer_class;
  int64_t inputs = 0;      // embedding: rows (the vocabulary)
  int64_t outputs = 0;     // embedding: its width
  bool embedding = false;  // TTM rather than TT
  bool in_head = false;
  bool bias = true;  // linear layers: a parameter NAME.bias
};

// `config` must pass CheckModelShape.
std::vector<FactorisableLayer> FactorisableLayers(const ModelConfig& config);

// Whether a SiLU may lie between the layer's two factors: embeddings have no
// such place, and the projection to the vocabulary stays a matrix.
bool MayActivate(const FactorisableLayer& layer);

// What the names of a transformer's parameters begin with, the head's apart:
// "encoder" or "decoder".
const char* TransformerName(const ModelConfig& config);

// Heads of the model's LTE layers, which are equally many; 1 without any.
int64_t LteHeads(const ModelConfig& config);

// InvalidArgument names the field: widths, heads, modes whose product does not
// fit, ranks of the wrong number, anything absurd. What passes can be planned
// without overflow.
absl::Status CheckModelConfig(const ModelConfig& config);

// The part of CheckModelConfig that does not look at factorisations.
absl::Status CheckModelShape(const ModelConfig& config);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_CONFIG_LAYER_TABLE_H_
