// Sums of partial results, in their order: what takes the place of atomics.
#ifndef COMERA_KERNELS_CUDA_SUM_PARTS_H_
#define COMERA_KERNELS_CUDA_SUM_PARTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// to (=, or += if `add`) part 0 + part 1 + ..; part p is a packed matrix of the
// shape of `to` at parts + p * part_floats.
absl::Status SumParts(cudaStream_t stream, const float* parts, int64_t count,
                      int64_t part_floats, bool add, Matrix to);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_SUM_PARTS_H_
