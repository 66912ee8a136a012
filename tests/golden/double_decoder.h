// A decoder in double precision and plain loops, written from the specification
// of its architectures and not from the engine, which is compared with it.
#ifndef COMERA_TESTS_GOLDEN_DOUBLE_DECODER_H_
#define COMERA_TESTS_GOLDEN_DOUBLE_DECODER_H_

#include <vector>

#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::golden {

struct DoubleDecoderResult {
  // (tokens, vocabulary), for every token of the batch that is no padding.
  std::vector<float> logits;
  double loss_sum = 0;  // nats, over the labels
  // Gradients of loss_sum, in the order of SpecifiedLayout
  // (specified_layout.h).
  std::vector<double> gradients;
};

// Runs the batch, each document alone: the tokens of a row with one segment
// number. `parameters` are in SpecifiedLayout's order; dropout is left out.
DoubleDecoderResult RunDoubleDecoder(const trainer::ModelConfig& config,
                                     const std::vector<float>& parameters,
                                     const trainer::Batch& batch);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_DOUBLE_DECODER_H_
