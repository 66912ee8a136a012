// Tensor-core products of small matrices in one warp, in any CudaPrecision.
//
// A warp multiplies A (16, 16) by B (16, 8) into sums (16, 8). Lane l = 4 g + t
// holds of the sums (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1), and of operands
// the places 2t and 2t+1 of each 8 along the common side, whatever the
// precision: the order of that side is free, so tf32's (t, t+4) are made of
// (2t, 2t+1). Two tiles of sums side by side are therefore an A as they lie in
// registers, and whatever lies along rows is read in pairs.
//
// Operands lie in shared memory as Stored<precision>: float, or bfloat16 as its
// 16 bits. Products of kFp32 take each operand as the sum of two tf32, of 22
// bits together, and leave out the product of the two small parts: errors of
// some 2^-21, as those of float sums.
#ifndef COMERA_KERNELS_CUDA_DEVICE_MMA_TILE_H_
#define COMERA_KERNELS_CUDA_DEVICE_MMA_TILE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

template <CudaPrecision kPrecision>
struct OperandOf {
  using Stored = float;
};
template <>
struct OperandOf<CudaPrecision::kBf16> {
  using Stored = uint16_t;
};
template <CudaPrecision kPrecision>
using Stored = typename OperandOf<kPrecision>::Stored;

__device__ __forceinline__ void Store(float x, float* to) { *to = x; }
__device__ __forceinline__ void Store(float x, uint16_t* to) {
  *to = static_cast<uint16_t>(PackBf16(x, 0.0f));
}
// Two neighbours; `to` is aligned to both together.
__device__ __forceinline__ void Store2(float x, float y, float* to) {
  *reinterpret_cast<float2*>(to) = make_float2(x, y);
}
__device__ __forceinline__ void Store2(float x, float y, uint16_t* to) {
  const uint32_t bits = PackBf16(x, y);
  *reinterpret_cast<ushort2*>(to) =
      make_ushort2(static_cast<unsigned short>(bits),
                   static_cast<unsigned short>(bits >> 16));
}

// What lies in lane 4 g + t of A (16, 16): of column block c (8 columns),
// value i as in the sums above.
template <CudaPrecision kPrecision>
struct AFragment;
template <>
struct AFragment<CudaPrecision::kFp32> {
  uint32_t big[2][4], small[2][4];
};
template <>
struct AFragment<CudaPrecision::kTf32> {
  uint32_t bits[2][4];
};
template <>
struct AFragment<CudaPrecision::kBf16> {
  uint32_t bits[4];
};

// A lane's part of B (16, 8): rows 2t, 2t+1, 2t+8, 2t+9 of column g.
template <CudaPrecision kPrecision>
struct BFragment;
template <>
struct BFragment<CudaPrecision::kFp32> {
  uint32_t big[2][2], small[2][2];
};
template <>
struct BFragment<CudaPrecision::kTf32> {
  uint32_t bits[2][2];
};
template <>
struct BFragment<CudaPrecision::kBf16> {
  uint32_t bits[2];
};

namespace mma_internal {

__device__ __forceinline__ float AsFloat(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

__device__ __forceinline__ void Split(float x, uint32_t* big, uint32_t* small) {
  *big = ToTf32(x);
  *small = ToTf32(x - AsFloat(*big));
}

}  // namespace mma_internal

// Two sums' tiles, or values in the same places.
template <CudaPrecision kPrecision>
__device__ __forceinline__ AFragment<kPrecision> MakeA(
    const float (&left)[4], const float (&right)[4]) {
  AFragment<kPrecision> a;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // Registers of a tf32 A: (g, 2t), (g+8, 2t), (g, 2t+1), (g+8, 2t+1).
    const int to = (i == 1 || i == 2) ? 3 - i : i;
    if constexpr (kPrecision == CudaPrecision::kFp32) {
      mma_internal::Split(left[i], &a.big[0][to], &a.small[0][to]);
      mma_internal::Split(right[i], &a.big[1][to], &a.small[1][to]);
    } else if constexpr (kPrecision == CudaPrecision::kTf32) {
      a.bits[0][to] = ToTf32(left[i]);
      a.bits[1][to] = ToTf32(right[i]);
    }
  }
  if constexpr (kPrecision == CudaPrecision::kBf16) {
    a.bits[0] = PackBf16(left[0], left[1]);
    a.bits[1] = PackBf16(left[2], left[3]);
    a.bits[2] = PackBf16(right[0], right[1]);
    a.bits[3] = PackBf16(right[2], right[3]);
  }
  return a;
}

// Rows 2t, 2t+1, 2t+8, 2t+9 of column g.
template <CudaPrecision kPrecision>
__device__ __forceinline__ BFragment<kPrecision> MakeB(const float (&x)[4]) {
  BFragment<kPrecision> b;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kPrecision == CudaPrecision::kFp32) {
      mma_internal::Split(x[i], &b.big[i / 2][i % 2], &b.small[i / 2][i % 2]);
    } else if constexpr (kPrecision == CudaPrecision::kTf32) {
      b.bits[i / 2][i % 2] = ToTf32(x[i]);
    }
  }
  if constexpr (kPrecision == CudaPrecision::kBf16) {
    b.bits[0] = PackBf16(x[0], x[1]);
    b.bits[1] = PackBf16(x[2], x[3]);
  }
  return b;
}

__device__ __forceinline__ int WarpLane() {
  return static_cast<int>(threadIdx.x) % 32;
}
__device__ __forceinline__ int LaneGroup() { return WarpLane() / 4; }  // g
__device__ __forceinline__ int LanePair() {
  return 2 * (WarpLane() % 4);
}  // 2t

namespace mma_internal {

__device__ __forceinline__ float2 Pair(const float* at) {
  return *reinterpret_cast<const float2*>(at);
}
}  // namespace mma_internal

// Element (i, k) of A is a[i * stride + k]. Without bank conflicts if stride is
// 8 or 24 mod 32 (float), or 8 mod 16 (bfloat16); rows aligned to pairs (float)
// or, here and below, to 16 bytes (bfloat16).
template <CudaPrecision kPrecision>
__device__ __forceinline__ AFragment<kPrecision> LoadA(const float* a,
                                                       int stride) {
  const float* upper = a + LaneGroup() * stride + LanePair();
  const float* lower = upper + 8 * stride;
  const float2 p = mma_internal::Pair(upper), q = mma_internal::Pair(lower);
  const float2 r = mma_internal::Pair(upper + 8);
  const float2 s = mma_internal::Pair(lower + 8);
  const float left[4] = {p.x, p.y, q.x, q.y};
  const float right[4] = {r.x, r.y, s.x, s.y};
  return MakeA<kPrecision>(left, right);
}
template <CudaPrecision kPrecision>
__device__ __forceinline__ AFragment<kPrecision> LoadA(const uint16_t* a,
                                                       int stride) {
  static_assert(kPrecision == CudaPrecision::kBf16);
  AFragment<kPrecision> fragment;
  LoadTile<false>(a, stride, fragment.bits);
  return fragment;
}

// Element (i, k) of A is a[k * stride + i]. Without bank conflicts if stride is
// 4 mod 16 (float), or 8 mod 16 (bfloat16).
template <CudaPrecision kPrecision>
__device__ __forceinline__ AFragment<kPrecision> LoadATransposed(const float* a,
                                                                 int stride) {
  const float* even = a + LanePair() * stride + LaneGroup();
  const float* odd = even + stride;
  const int on = 8 * stride;
  const float left[4] = {even[0], odd[0], even[8], odd[8]};
  const float right[4] = {even[on], odd[on], even[on + 8], odd[on + 8]};
  return MakeA<kPrecision>(left, right);
}
template <CudaPrecision kPrecision>
__device__ __forceinline__ AFragment<kPrecision> LoadATransposed(
    const uint16_t* a, int stride) {
  static_assert(kPrecision == CudaPrecision::kBf16);
  AFragment<kPrecision> fragment;
  LoadTile<true>(a, stride, fragment.bits);
  return fragment;
}

// Element (k, j) of B is b[k * stride + j]; strides as of LoadATransposed.
template <CudaPrecision kPrecision>
__device__ __forceinline__ BFragment<kPrecision> LoadB(const float* b,
                                                       int stride) {
  const float* at = b + LanePair() * stride + LaneGroup();
  const float x[4] = {at[0], at[stride], at[8 * stride], at[9 * stride]};
  return MakeB<kPrecision>(x);
}
template <CudaPrecision kPrecision>
__device__ __forceinline__ BFragment<kPrecision> LoadB(const uint16_t* b,
                                                       int stride) {
  static_assert(kPrecision == CudaPrecision::kBf16);
  BFragment<kPrecision> fragment;
  LoadHalfTile<true>(b, stride, fragment.bits);
  return fragment;
}

// Element (k, j) of B is b[j * stride + k]; strides as of LoadA.
template <CudaPrecision kPrecision>
__device__ __forceinline__ BFragment<kPrecision> LoadBTransposed(const float* b,
                                                                 int stride) {
  const float* at = b + LaneGroup() * stride + LanePair();
  const float2 p = mma_internal::Pair(at), q = mma_internal::Pair(at + 8);
  const float x[4] = {p.x, p.y, q.x, q.y};
  return MakeB<kPrecision>(x);
}
template <CudaPrecision kPrecision>
__device__ __forceinline__ BFragment<kPrecision> LoadBTransposed(
    const uint16_t* b, int stride) {
  static_assert(kPrecision == CudaPrecision::kBf16);
  BFragment<kPrecision> fragment;
  LoadHalfTile<false>(b, stride, fragment.bits);
  return fragment;
}

// Two B side by side, in bfloat16: LoadB of b and of b + 8, and LoadBTransposed
// of b and of b + 8 * stride.
template <CudaPrecision kPrecision>
struct BPair {
  BFragment<kPrecision> left, right;
};
template <CudaPrecision kPrecision>
__device__ __forceinline__ BPair<kPrecision> LoadBPair(const uint16_t* b,
                                                       int stride) {
  uint32_t bits[4];
  LoadTile<true>(b, stride, bits);
  return {{{bits[0], bits[2]}}, {{bits[1], bits[3]}}};
}
template <CudaPrecision kPrecision>
__device__ __forceinline__ BPair<kPrecision> LoadBPairTransposed(
    const uint16_t* b, int stride) {
  uint32_t bits[4];
  LoadTile<false>(b, stride, bits);
  return {{{bits[0], bits[2]}}, {{bits[1], bits[3]}}};
}

// sums += a b, one of a few. All lanes of the warp.
template <CudaPrecision kPrecision>
__device__ __forceinline__ void MultiplyFew(float (&sums)[4],
                                            const AFragment<kPrecision>& a,
                                            const BFragment<kPrecision>& b) {
  if constexpr (kPrecision == CudaPrecision::kBf16) {
    MmaBf16(sums, a.bits, b.bits);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kPrecision == CudaPrecision::kTf32) {
        MmaTf32(sums, a.bits[half], b.bits[half]);
      } else {
        MmaTf32(sums, a.small[half], b.big[half]);
        MmaTf32(sums, a.big[half], b.small[half]);
        MmaTf32(sums, a.big[half], b.big[half]);
      }
    }
  }
}

// sums += a b, of any number. Tensor cores cut off what does not fit into their
// sums, always towards 0: in kFp32 that would be the largest error by far of a
// long sum, growing with every product. So there the product is made by itself
// and added as floats are, to nearest (Ootomo and Yokota, "Recovering single
// precision accuracy from Tensor Cores while surpassing the FP32 theoretical
// peak performance", 2022).
template <CudaPrecision kPrecision>
__device__ __forceinline__ void Multiply(float (&sums)[4],
                                         const AFragment<kPrecision>& a,
                                         const BFragment<kPrecision>& b) {
  if constexpr (kPrecision == CudaPrecision::kFp32) {
    float product[4] = {0, 0, 0, 0};
    MultiplyFew<kPrecision>(product, a, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += product[i];
  } else {
    MultiplyFew<kPrecision>(sums, a, b);
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_MMA_TILE_H_
