// Reads the published language models (golden/causal_lm): configuration,
// batches and parameters in our names and layouts.
#ifndef COMERA_TESTS_GOLDEN_PUBLISHED_DECODER_H_
#define COMERA_TESTS_GOLDEN_PUBLISHED_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::golden {

// The model of a file whose topic is llama_step, gpt2_step or llama_tt_step,
// without dropout. DataLoss: metadata or ids are missing or contradictory.
absl::StatusOr<trainer::ModelConfig> PublishedDecoderConfig(
    const Safetensors& file);

// Batch `index` of those under `prefix` ("" or "steps."). A row's documents
// become segments 0, 1, .. and its padding a mask of zeros; a target of -100 is
// no label. DataLoss: what these cannot express, such as positions that do not
// begin anew with each document, or padding before the end of a row.
absl::StatusOr<trainer::Batch> PublishedDecoderBatch(const Safetensors& file,
                                                     const std::string& prefix,
                                                     int64_t index);

// The tensors under `prefix` ("", "grad.", "after1.", ..), one value for each
// element of the parameters, in the layout's order. DataLoss: a parameter has
// no tensor, or one of another shape, or a tensor belongs to no parameter.
absl::StatusOr<std::vector<float>> PublishedDecoderValues(
    const Safetensors& file, const std::string& prefix,
    const trainer::ModelConfig& config, const trainer::ParameterLayout& layout);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_PUBLISHED_DECODER_H_
