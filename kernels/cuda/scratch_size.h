// The bound of an operation's scratch memory.
#ifndef COMERA_KERNELS_CUDA_SCRATCH_SIZE_H_
#define COMERA_KERNELS_CUDA_SCRATCH_SIZE_H_

#include <cstdint>

namespace comera::kernels {

// Operations cut their work so that partial results take no more than this.
inline constexpr int64_t kMostScratchBytes = int64_t{32} << 20;

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_SCRATCH_SIZE_H_
