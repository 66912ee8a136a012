// How far the kernels of the CUDA backend reach; beyond, an operation falls
// apart into others or is refused.
#ifndef COMERA_KERNELS_GPU_LIMITS_H_
#define COMERA_KERNELS_GPU_LIMITS_H_

#include <cstdint>

namespace comera::kernels {

// The widest of a head, or of a rank and its column of ones, in attention.
inline constexpr int64_t kMostAttentionWidth = 128;
// The largest rank, with the ones, of a feed-forward layer in rank space whose
// hidden layer stays in registers, and the tokens whose hidden layer is in
// memory at a time where ranks are larger.
inline constexpr int64_t kMostFusedFfnRank = 64;
inline constexpr int64_t kUnfusedFfnRows = 512;

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_GPU_LIMITS_H_
