// The keys of their sequence that the 16 queries of a warp see.
#ifndef COMERA_KERNELS_CUDA_DEVICE_ATTENTION_KEYS_H_
#define COMERA_KERNELS_CUDA_DEVICE_ATTENTION_KEYS_H_

#include <cuda_runtime.h>

#include <type_traits>

#include "kernels/cuda/device/mma_tile.h"

namespace comera::kernels {

// How many of the sequence's keys row g + 8 r of the lane sees: all of them,
struct AllKeys {
  int length = 0;
  __device__ __forceinline__ int operator()(int) const { return length; }
};
// or, of causal attention, those up to its own place.
struct KeysUpToQuery {
  int length = 0;
  int place = 0;  // where row g lies in the sequence
  __device__ __forceinline__ int operator()(int r) const {
    return min(length, place + 8 * r + 1);
  }
};
template <bool kCausal>
using SeenKeys = std::conditional_t<kCausal, KeysUpToQuery, AllKeys>;

// The keys of a sequence of `length` tokens that the queries of a warp see, the
// first of which has place `begin`.
template <bool kCausal>
__device__ __forceinline__ SeenKeys<kCausal> SeenFrom(int length, int begin) {
  if constexpr (kCausal) {
    return {length, begin + LaneGroup()};
  } else {
    return {length};
  }
}

// How many of the first `keys` keys any of `rows` queries sees, the first of
// which has place `begin`; not above 0 if none.
template <bool kCausal>
__device__ __forceinline__ int KeysInReach(int keys, int begin, int rows) {
  return kCausal ? min(keys, begin + rows) : keys;
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_ATTENTION_KEYS_H_
