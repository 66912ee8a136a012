// The last step of a sum over rows that was made in blocks.
#ifndef COMERA_KERNELS_CPU_COLUMN_SUMS_H_
#define COMERA_KERNELS_CPU_COLUMN_SUMS_H_

#include <cstdint>

namespace comera::kernels {

// to[j] += sum over blocks of partial[block * stride + j], in order of blocks.
inline void AddColumnSums(const float* partial, int64_t blocks, int64_t stride,
                          int64_t cols, float* to) {
  for (int64_t block = 0; block < blocks; ++block) {
    const float* from = partial + block * stride;
    for (int64_t j = 0; j < cols; ++j) to[j] += from[j];
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_COLUMN_SUMS_H_
