#ifndef COMERA_WORKER_TRAINER_GENERATE_FOLDED_DECODER_H_
#define COMERA_WORKER_TRAINER_GENERATE_FOLDED_DECODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/generate/attention_layers.h"
#include "worker/trainer/generate/folded_linear.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

// The scale and shift of a row norm; without a shift it is RMSNorm.
struct FoldedNorm {
  kernels::ConstVector gamma, beta;
};

struct FoldedFfn {
  std::optional<FoldedLinear> gate;  // LLaMA's
  FoldedLinear up, down;
  kernels::Activation activation;
};

// A half of a block adds to the residual stream what its layers give for the
// normalised stream. Where these were pruned so far that the result is the same
// for every token, it is `constant`, and there are no layers; null data: 0.
template <typename Layers>
struct FoldedHalf {
  FoldedNorm norm;
  std::optional<Layers> layers;
  kernels::ConstVector constant;
};

struct FoldedBlock {
  FoldedHalf<AttentionLayers> attention;
  FoldedHalf<FoldedFfn> ffn;
};

// A causal language model's layers, ready to go forward.
struct FoldedDecoder {
  kernels::ConstMatrix words;      // (vocabulary, hidden)
  kernels::ConstMatrix positions;  // (max_positions, hidden); null: none
  std::vector<FoldedBlock> blocks;
  FoldedNorm norm;
  std::optional<FoldedLinear> output;  // hidden to vocabulary
  // What `words` views, unless that is a parameter.
  std::shared_ptr<const kernels::Arena> table;
};

// Folds a model of the family causal_lm. `parameters`: see ModelParts; they,
// the configuration and the backend outlive the result. ResourceExhausted: does
// not fit, or a table of words that is tensorised exceeds 2 GiB.
absl::StatusOr<FoldedDecoder> FoldDecoder(const ModelConfig& config,
                                          const float* parameters,
                                          kernels::Backend* backend);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_FOLDED_DECODER_H_
