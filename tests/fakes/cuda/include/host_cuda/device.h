// Barriers, warp collectives, atomics and memory access of device code.
#ifndef COMERA_TESTS_FAKES_CUDA_HOST_CUDA_DEVICE_H_
#define COMERA_TESTS_FAKES_CUDA_HOST_CUDA_DEVICE_H_

#include <cstring>
#include <type_traits>

#include "host_cuda/block.h"

// The caller's place, as default arguments of a device function.
#define COMERA_SITE                            \
  const char *function = __builtin_FUNCTION(), \
             const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define COMERA_HERE(what) \
  ::comera::fake_cuda::CallSite { what, function, file, line }

inline void __syncthreads(COMERA_SITE) {
  comera::fake_cuda::SyncBlock(COMERA_HERE("__syncthreads"), false);
}
inline int __syncthreads_count(int vote, COMERA_SITE) {
  return comera::fake_cuda::SyncBlock(COMERA_HERE("__syncthreads_count"),
                                      vote != 0)
      .yes;
}
inline int __syncthreads_or(int vote, COMERA_SITE) {
  return comera::fake_cuda::SyncBlock(COMERA_HERE("__syncthreads_or"),
                                      vote != 0)
             .yes > 0;
}
inline int __syncthreads_and(int vote, COMERA_SITE) {
  const auto votes =
      comera::fake_cuda::SyncBlock(COMERA_HERE("__syncthreads_and"), vote != 0);
  return votes.yes == votes.threads;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, COMERA_SITE) {
  comera::fake_cuda::WarpCollective(COMERA_HERE("__syncwarp"), mask, nullptr,
                                    [](void* const(&)[32]) {});
}

namespace comera::fake_cuda {

template <typename T>
struct ShuffleRequest {
  T value;
  int source;
  T result;
};

template <typename T>
T Shuffle(const CallSite& site, unsigned mask, T value, int source) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  ShuffleRequest<T> request = {value, source, value};
  WarpCollective(site, mask, &request, [](void* const(&lanes)[32]) {
    for (void* lane : lanes) {
      if (lane == nullptr) continue;
      auto* mine = static_cast<ShuffleRequest<T>*>(lane);
      const auto* other =
          static_cast<const ShuffleRequest<T>*>(lanes[mine->source]);
      if (other == nullptr) Fail("a shuffle reads a lane outside its mask");
      mine->result = other->value;
    }
  });
  return request.result;
}

struct VoteRequest {
  bool vote;
  unsigned ballot;
};

inline unsigned Ballot(const CallSite& site, unsigned mask, bool vote) {
  VoteRequest request = {vote, 0};
  WarpCollective(site, mask, &request, [](void* const(&lanes)[32]) {
    unsigned ballot = 0;
    for (int l = 0; l < 32; ++l) {
      if (lanes[l] == nullptr) continue;
      if (static_cast<VoteRequest*>(lanes[l])->vote) ballot |= 1u << l;
    }
    for (void* lane : lanes) {
      if (lane != nullptr) static_cast<VoteRequest*>(lane)->ballot = ballot;
    }
  });
  return request.ballot;
}

template <typename T>
struct ReduceRequest {
  T value;
  T result;
};

// Combine: T (T, T), associative and commutative.
template <typename T, typename Combine>
T Reduce(const CallSite& site, unsigned mask, T value, Combine) {
  ReduceRequest<T> request = {value, value};
  WarpCollective(site, mask, &request, [](void* const(&lanes)[32]) {
    const ReduceRequest<T>* first = nullptr;
    T sum = {};
    for (void* lane : lanes) {
      if (lane == nullptr) continue;
      const auto* r = static_cast<const ReduceRequest<T>*>(lane);
      sum = first == nullptr ? r->value : Combine::Of(sum, r->value);
      if (first == nullptr) first = r;
    }
    for (void* lane : lanes) {
      if (lane != nullptr) static_cast<ReduceRequest<T>*>(lane)->result = sum;
    }
  });
  return request.result;
}

struct CombineAdd {
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct CombineMin {
  template <typename T>
  static T Of(T a, T b) {
    return a < b ? a : b;
  }
};
struct CombineMax {
  template <typename T>
  static T Of(T a, T b) {
    return a < b ? b : a;
  }
};

}  // namespace comera::fake_cuda

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, COMERA_SITE) {
  const int lane = comera::fake_cuda::CurrentLane();
  return comera::fake_cuda::Shuffle(
      COMERA_HERE("__shfl_sync"), mask, value,
      (lane & ~(width - 1)) + (source & (width - 1)));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 COMERA_SITE) {
  const int lane = comera::fake_cuda::CurrentLane();
  const int source = lane - static_cast<int>(delta);
  const int first = lane & ~(width - 1);
  return comera::fake_cuda::Shuffle(COMERA_HERE("__shfl_up_sync"), mask, value,
                                    source < first ? lane : source);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   COMERA_SITE) {
  const int lane = comera::fake_cuda::CurrentLane();
  const int source = lane + static_cast<int>(delta);
  const int end = (lane & ~(width - 1)) + width;
  return comera::fake_cuda::Shuffle(COMERA_HERE("__shfl_down_sync"), mask,
                                    value, source >= end ? lane : source);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  COMERA_SITE) {
  const int lane = comera::fake_cuda::CurrentLane();
  const int source = lane ^ lanes;
  const int end = (lane & ~(width - 1)) + width;
  return comera::fake_cuda::Shuffle(COMERA_HERE("__shfl_xor_sync"), mask, value,
                                    source >= end ? lane : source);
}

inline unsigned __ballot_sync(unsigned mask, int vote, COMERA_SITE) {
  return comera::fake_cuda::Ballot(COMERA_HERE("__ballot_sync"), mask,
                                   vote != 0);
}
inline int __any_sync(unsigned mask, int vote, COMERA_SITE) {
  return comera::fake_cuda::Ballot(COMERA_HERE("__any_sync"), mask,
                                   vote != 0) != 0;
}
inline int __all_sync(unsigned mask, int vote, COMERA_SITE) {
  return comera::fake_cuda::Ballot(COMERA_HERE("__all_sync"), mask,
                                   vote != 0) == mask;
}
template <typename T>
T __reduce_add_sync(unsigned mask, T value, COMERA_SITE) {
  return comera::fake_cuda::Reduce(COMERA_HERE("__reduce_add_sync"), mask,
                                   value, comera::fake_cuda::CombineAdd());
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value, COMERA_SITE) {
  return comera::fake_cuda::Reduce(COMERA_HERE("__reduce_min_sync"), mask,
                                   value, comera::fake_cuda::CombineMin());
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value, COMERA_SITE) {
  return comera::fake_cuda::Reduce(COMERA_HERE("__reduce_max_sync"), mask,
                                   value, comera::fake_cuda::CombineMax());
}
inline unsigned __activemask() { return 0xffffffffu; }

// Fibers of a block change only where they wait, so that these are atomic
// within a launch; two host threads never share a device buffer.
template <typename T>
T atomicAdd(T* to, std::common_type_t<T> value) {
  static_assert(std::is_integral_v<T>, "float atomics are not deterministic");
  const T old = *to;
  *to = old + value;
  return old;
}
template <typename T>
T atomicMax(T* to, std::common_type_t<T> value) {
  const T old = *to;
  *to = old < value ? value : old;
  return old;
}
template <typename T>
T atomicMin(T* to, std::common_type_t<T> value) {
  const T old = *to;
  *to = value < old ? value : old;
  return old;
}
template <typename T>
T atomicExch(T* to, std::common_type_t<T> value) {
  const T old = *to;
  *to = value;
  return old;
}
template <typename T>
T atomicCAS(T* to, std::common_type_t<T> compare, std::common_type_t<T> value) {
  const T old = *to;
  if (old == compare) *to = value;
  return old;
}
template <typename T>
T atomicOr(T* to, std::common_type_t<T> value) {
  const T old = *to;
  *to = old | value;
  return old;
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <typename T>
T __ldg(const T* from) {
  return *from;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
void __stcs(T* to, std::common_type_t<T> value) {
  *to = value;
}
template <typename T>
void __stcg(T* to, std::common_type_t<T> value) {
  *to = value;
}

[[noreturn]] inline void __trap() { comera::fake_cuda::Trap(); }

#undef COMERA_SITE
#undef COMERA_HERE

#endif  // COMERA_TESTS_FAKES_CUDA_HOST_CUDA_DEVICE_H_
