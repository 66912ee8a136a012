#ifndef COMERA_TESTS_GOLDEN_REFERENCE_BATCH_H_
#define COMERA_TESTS_GOLDEN_REFERENCE_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::golden {

// Returns batch `index` of the `count` batches that are concatenated in ids,
// mask, segments and labels.
absl::StatusOr<trainer::Batch> ReferenceBatch(const Safetensors& file,
                                              int64_t index, int64_t count);

// Returns the layers as the published code counts their size: a TTM core counts
// only with its row mode (the second extent of its shape).
std::vector<trainer::TensorisedLayer> ReferenceSizeLayers(
    const trainer::ParameterLayout& layout,
    std::vector<trainer::TensorisedLayer> layers);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_REFERENCE_BATCH_H_
