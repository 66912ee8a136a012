#ifndef COMERA_TESTS_GOLDEN_REFERENCE_BATCH_H_
#define COMERA_TESTS_GOLDEN_REFERENCE_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::golden {

// Batch `index` of `count` that lie behind one another in ids, mask, segments
// and labels.
absl::StatusOr<trainer::Batch> ReferenceBatch(const Safetensors& file,
                                              int64_t index, int64_t count);

// The layers as the published code counts their size: of a TTM core only the
// row mode (the second extent of its shape).
std::vector<trainer::TensorisedLayer> ReferenceSizeLayers(
    const trainer::ParameterLayout& layout,
    std::vector<trainer::TensorisedLayer> layers);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_REFERENCE_BATCH_H_
