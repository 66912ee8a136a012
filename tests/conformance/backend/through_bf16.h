// Runs operations on float32 matrices by their forms in bfloat16, so that the
// rows of the former test the latter.
#ifndef COMERA_TESTS_CONFORMANCE_BACKEND_THROUGH_BF16_H_
#define COMERA_TESTS_CONFORMANCE_BACKEND_THROUGH_BF16_H_

#include <memory>

#include "kernels/backend.h"

namespace comera::kernels {

// `backend` has bfloat16 in memory. ResidualLayerNorm and its backward pass,
// LayerNormOutput, Attention and AttentionBackward round their operands to
// copies with the same gaps between rows, run in bfloat16 and widen the
// results; operands at one address share a copy. Internal: an operation wrote
// into a gap. All other operations are those of `backend`.
std::unique_ptr<Backend> ThroughBf16(std::unique_ptr<Backend> backend);

}  // namespace comera::kernels

#endif  // COMERA_TESTS_CONFORMANCE_BACKEND_THROUGH_BF16_H_
