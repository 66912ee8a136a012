// Small decoders of every form with random weights, for tests.
#ifndef COMERA_TESTS_WORKER_TRAINER_GENERATE_RANDOM_DECODER_H_
#define COMERA_TESTS_WORKER_TRAINER_GENERATE_RANDOM_DECODER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::trainer {

struct DecoderCase {
  std::string name;
  v1::ModelSpec::Architecture architecture = v1::ModelSpec::LLAMA;
  int64_t kv_heads = 4;
  bool tied = false;
  bool gate_silu = true;
  // Every layer in cores of this middle rank; 0: none is.
  int64_t rank = 0;
  // With cores: a SiLU between the halves of the layers within the blocks.
  bool silu = false;
  // The form of linear layers within the blocks, where they have no cores.
  LowRank low_rank = {};
  // Layers whose rank entries are all below the threshold.
  std::set<std::string> pruned = {};
  // Whether keys and values are expected to be cached in rank space.
  bool rank_keys = false, rank_values = false;
};

// Two blocks of width 24 with four heads, texts of up to `length` tokens of a
// vocabulary of 31.
ModelConfig DecoderConfig(const DecoderCase& c, int64_t length);

// Parameters of the configuration's layout that let every layer take part.
std::vector<float> DecoderParameters(const DecoderCase& c,
                                     const ModelConfig& config);

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_GENERATE_RANDOM_DECODER_H_
