// Sums of partial results, in a fixed order: what takes the place of atomics.
#ifndef COMERA_KERNELS_CUDA_SUM_PARTS_H_
#define COMERA_KERNELS_CUDA_SUM_PARTS_H_

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// to (=, or += if `add`) the sum of all parts. Part p is a packed matrix of the
// shape of `to` at parts + p * part_floats.
struct PartialSums {
  const float* parts = nullptr;
  int64_t count = 0;
  int64_t part_floats = 0;
  bool add = false;
  Matrix to;
};

// One launch for at most three.
absl::Status SumParts(KernelStream stream,
                      std::initializer_list<PartialSums> sums);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_SUM_PARTS_H_
