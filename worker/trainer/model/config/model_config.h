#ifndef COMERA_WORKER_TRAINER_MODEL_CONFIG_MODEL_CONFIG_H_
#define COMERA_WORKER_TRAINER_MODEL_CONFIG_MODEL_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "comera/v1/job.pb.h"
#include "kernels/contraction/cost_model.h"
#include "kernels/machine_speed.h"
#include "worker/trainer/data/batch/click_shape.h"

namespace comera::trainer {

// How one of the other methods trains the W (inputs, outputs) of a layer that
// has no cores, with Y = X W. A is (inputs, heads * rank), B (heads * rank,
// outputs); A_n and B_n are a head's columns and rows.
struct LowRank {
  enum class Kind {
    kNone,    // W as it is
    kGalore,  // W whole, the optimiser's state projected to the rank
    kLora,    // W frozen, Y += scale X A B
    kLte,     // likewise with heads, and with A', B' the factors at the last
              // merge: Y += scale / heads sum of X (A_n B_n - A'_n B'_n); in
              // training a head's samples see its own difference only
    kCola,    // no W: Y = f(X A) B, f being SiLU
  };
  Kind kind = Kind::kNone;
  int64_t rank = 0;
  int64_t heads = 1;
  double scale = 1;
  bool linear = false;  // kCola: f is the identity
};

// How one layer is factorised. Dense: no modes.
struct Factorisation {
  std::vector<int64_t> input_modes;   // TTM: row modes
  std::vector<int64_t> output_modes;  // TTM: column modes
  // Inner ranks r_1..r_{order-1}; all 0: the layer is pruned (only its
  // bias remains; an embedding gives zeros but for its dense rows).
  std::vector<int64_t> ranks;
  LowRank low_rank = {};  // without modes only
  // With modes, a linear layer only: Y = SiLU(X A) B, A being the product of
  // the input cores and B that of the output cores. Without, Y = X A B.
  bool silu = false;
  // Ids, ascending, of the tokens whose rows are dense in place of the train's:
  // row i of the parameter NAME.dense_rows belongs to dense_tokens[i]. Only of
  // a transformer's word embedding in TTM form.
  std::vector<int32_t> dense_tokens = {};
  // No cores.
  bool dense() const { return input_modes.empty(); }
  // Whether a SiLU lies between the layer's two factors, so that it has no W.
  bool silu_between_factors() const {
    return silu || (low_rank.kind == LowRank::Kind::kCola && !low_rank.linear);
  }
  // Number of cores: TT input + output modes, TTM row modes.
};

// Complete, explicit description of a model: nothing is left to choose.
struct ModelConfig {
  v1::ModelSpec::Family family = v1::ModelSpec::MASKED_LM;
  int64_t vocabulary = 0;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t max_positions = 0;
  int64_t segments = 2;
  int64_t classes = 0;
  int64_t length = 0;  // tokens per sample, fixed
  // Causal LM: what its blocks are made of. Of the fields above it has no
  // segments.
  v1::ModelSpec::Architecture architecture =
      v1::ModelSpec::ARCHITECTURE_UNSPECIFIED;
  // Heads of keys and values, a divisor of heads; 0: as many as heads.
  int64_t kv_heads = 0;
  float rope_theta = 1e4f;  // LLaMA's
  // LLaMA: the hidden layer is silu(gate) * up; false: gate * up.
  bool gate_silu = true;
  // Language models: the projection to the vocabulary is the word embedding's
  // table; there is then no layer "output".
  bool tie_output = false;
  float dropout = 0.1f;
  float layer_norm_epsilon = 1e-9f;
  float rank_threshold = 1e-2f;
  // Cores begin with the random values of the published code instead of
  // orthonormal unfoldings, and a tensorised table with deviation 1.
  bool published_initialisation = false;
  // DLRM: what its samples hold, and the widths of its MLPs' layers; of the
  // fields above it has only rank_threshold, and a length of 1.
  ClickShape clicks;
  std::vector<int64_t> bottom_mlp;  // the last: width of the embeddings
  std::vector<int64_t> top_mlp;     // the last: 1
  // By layer name: "embedding", "layers.I.query|key|value|output|ffn_up|
  // ffn_down", in a LLaMA "layers.I.ffn_gate", "head" (classifier fc1 /
  // masked-LM transform), "output" (projection to the vocabulary; the
  // classifier's fc2 is always dense). DLRM: "bottom.I", "tables.I", "top.I".
  std::map<std::string, Factorisation> layers_by_name;

  // Training batches are padded to one of few shapes (plan/batch_padding.h), so
  // that captured steps serve many of them; the padding has no loss and no
  // gradient.
  bool pad_batches = false;
  // The gradients of a transformer are in memory block by block
  // (plan/gradient_blocks.h), for an optimiser that steps on each block alone.
  bool gradients_by_block = false;
  // What the contraction planner counts with; equal on all members of a job.
  kernels::MachineSpeed machine;
  // Every factorised layer on this path instead of the planner's choice, for
  // tests and comparisons; not kGrouped.
  std::optional<kernels::TtPath> forced_path;

  bool causal() const { return family == v1::ModelSpec::CAUSAL_LM; }
  bool llama() const {
    return causal() && architecture == v1::ModelSpec::LLAMA;
  }
  // Columns of a head's queries, and of all keys or all values of a token.
  int64_t head_width() const { return hidden / heads; }
  int64_t key_width() const {
    return (kv_heads > 0 ? kv_heads : heads) * head_width();
  }
};

// Resolves a spec (defaults filled) and the tokenizer's vocabulary: automatic
// modes, ranks cut to what each bond can hold. `token_counts` says how often
// each token is in the training data; the most frequent ones get the dense
// rows, of equally frequent ones the lower ids. Empty: the first tokens get
// them, which is as good for sizes and times. InvalidArgument names the field.
absl::StatusOr<ModelConfig> MakeModelConfig(
    const v1::JobSpec& spec, int64_t vocabulary,
    absl::Span<const int64_t> token_counts = {});

// The same for DLRM, whose data have this shape.
absl::StatusOr<ModelConfig> MakeModelConfig(const v1::JobSpec& spec,
                                            const ClickShape& clicks);

// The same layer with automatic modes of so many bonds as an earlier version
// chose, and these ranks; null: its modes are given, or no modes have so many
// bonds. `layer_key` is a key of config.layers_by_name.
std::optional<Factorisation> WithEarlierModes(
    const ModelConfig& config, const std::string& layer_key,
    const std::vector<int64_t>& ranks);

// Balanced factors of n into `count` modes (>= 1 each, product n); for
// embedding rows the product may exceed n.
std::vector<int64_t> AutoModes(int64_t n, int count, bool may_exceed);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_CONFIG_MODEL_CONFIG_H_
