// Operands of tensor-core products (mma_tile.h) in shared memory, fragment by
// fragment: a warp reads one with one access per lane, without bank conflicts.
//
// They are made from matrices in device memory of any shape, order of
// dimensions and alignment, with zeros where these end. A lane gathers its four
// or eight values, so that a warp reads whole sectors of 32 bytes, and in
// kTf32 and kBf16 values are rounded here, once for all warps.
#ifndef COMERA_KERNELS_CUDA_DEVICE_PACKED_FRAGMENTS_H_
#define COMERA_KERNELS_CUDA_DEVICE_PACKED_FRAGMENTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/mma_tile.h"
#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

// A matrix in device memory that the kernel does not write; element (i, j) is 0
// outside.
struct DeviceMatrix {
  const float* data;
  int stride, rows, cols;

  // What begins at (i, j). Kernels take the block that they work on, so that
  // offsets within it are small numbers.
  __device__ __forceinline__ DeviceMatrix Block(int i, int j) const {
    return {data + int64_t{i} * stride + j, stride, rows - i, cols - j};
  }
  __device__ __forceinline__ float At(int i, int j) const {
    return LoadOrZero(data + (i * stride + j), i < rows && j < cols);
  }
};

// One lane's part of a B fragment.
template <CudaPrecision kPrecision>
struct PackedBOf {
  using Type = uint4;
};
template <>
struct PackedBOf<CudaPrecision::kFp32> {
  using Type = float4;
};
template <>
struct PackedBOf<CudaPrecision::kBf16> {
  using Type = uint2;
};
template <CudaPrecision kPrecision>
using PackedB = typename PackedBOf<kPrecision>::Type;

template <CudaPrecision kPrecision>
__device__ __forceinline__ PackedB<kPrecision> PackB(const float (&x)[4]) {
  if constexpr (kPrecision == CudaPrecision::kFp32) {
    return make_float4(x[0], x[1], x[2], x[3]);
  } else if constexpr (kPrecision == CudaPrecision::kTf32) {
    return make_uint4(ToTf32(x[0]), ToTf32(x[1]), ToTf32(x[2]), ToTf32(x[3]));
  } else {
    return make_uint2(PackBf16(x[0], x[1]), PackBf16(x[2], x[3]));
  }
}

__device__ __forceinline__ BFragment<CudaPrecision::kFp32> UnpackB(
    const float4& x) {
  const float values[4] = {x.x, x.y, x.z, x.w};
  return MakeB<CudaPrecision::kFp32>(values);
}
__device__ __forceinline__ BFragment<CudaPrecision::kTf32> UnpackB(
    const uint4& x) {
  return {{{x.x, x.y}, {x.z, x.w}}};
}
__device__ __forceinline__ BFragment<CudaPrecision::kBf16> UnpackB(
    const uint2& x) {
  return {{x.x, x.y}};
}

// The four values of this lane in the B fragment whose first row and column are
// k and n; get(k, n) is an element.
template <typename Get>
__device__ __forceinline__ void GatherB(int k, int n, const Get& get,
                                        float (&x)[4]) {
  const int row = k + LanePair(), col = n + LaneGroup();
  x[0] = get(row, col);
  x[1] = get(row + 1, col);
  x[2] = get(row + 8, col);
  x[3] = get(row + 9, col);
}

// The eight values of this lane in the A fragment whose first row and column
// are i and k; get(i, k) is an element.
struct AValues {
  float left[4], right[4];
};
template <typename Get>
__device__ __forceinline__ AValues GatherA(int i, int k, const Get& get) {
  const int row = i + LaneGroup(), col = k + LanePair();
  return {{get(row, col), get(row, col + 1), get(row + 8, col),
           get(row + 8, col + 1)},
          {get(row, col + 8), get(row, col + 9), get(row + 8, col + 8),
           get(row + 8, col + 9)}};
}
// Keeps A in shared memory as two float4 of each lane, 64 in all.
__device__ __forceinline__ void KeepA(const AValues& a, float4* to) {
  to[WarpLane()] = make_float4(a.left[0], a.left[1], a.left[2], a.left[3]);
  to[32 + WarpLane()] =
      make_float4(a.right[0], a.right[1], a.right[2], a.right[3]);
}
template <CudaPrecision kPrecision>
__device__ __forceinline__ AFragment<kPrecision> KeptA(const float4* from) {
  const float4 x = from[WarpLane()], y = from[32 + WarpLane()];
  const float left[4] = {x.x, x.y, x.z, x.w};
  const float right[4] = {y.x, y.y, y.z, y.w};
  return MakeA<kPrecision>(left, right);
}

// A warp's rows of A, (16, 16 * kTiles), which all its products use. In
// registers, but for kFp32, where these would not suffice, from four tiles on:
// then in kSharedBytes of shared memory per warp, to be split again each time.
template <CudaPrecision kPrecision, int kTiles>
class HeldA {
 public:
  static constexpr bool kShared =
      kPrecision == CudaPrecision::kFp32 && kTiles >= 4;
  static constexpr int kSharedBytes = kShared ? kTiles * 32 * 32 : 0;

  // get(i, k) is an element of A; `shared` is all warps' and 16-byte aligned.
  template <typename Get>
  __device__ __forceinline__ void Gather(const Get& get, void* shared) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    shared_ = static_cast<float4*>(shared) + warp * kTiles * 64;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const AValues a = GatherA(0, 16 * tile, get);
      if constexpr (kShared) {
        KeepA(a, shared_ + 64 * tile);
      } else {
        fragments_[tile] = MakeA<kPrecision>(a.left, a.right);
      }
    }
  }
  __device__ __forceinline__ AFragment<kPrecision> At(int tile) const {
    if constexpr (kShared) {
      return KeptA<kPrecision>(shared_ + 64 * tile);
    } else {
      return fragments_[tile];
    }
  }

 private:
  AFragment<kPrecision> fragments_[kShared ? 1 : kTiles];
  float4* shared_;
};

// A panel of B, (16 * k_tiles, 8 * n_tiles): fragment (k, n) is number k *
// n_tiles + n, 32 lanes each. A block's warps fill it together; a warp's part
// waits in registers while the panel before is in use.
template <CudaPrecision kPrecision, int kKTiles, int kNTiles, int kWarps>
class PanelB {
 public:
  static constexpr int kFragments = kKTiles * kNTiles;
  static constexpr int kOfWarp = (kFragments + kWarps - 1) / kWarps;
  static constexpr int kBytes =
      kFragments * 32 * static_cast<int>(sizeof(PackedB<kPrecision>));

  // get(k, n) is an element, 0 outside.
  template <typename Get>
  __device__ __forceinline__ void Fetch(const Get& get) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
      const int f = warp + i * kWarps;
      if (kFragments % kWarps == 0 || f < kFragments) {
        GatherB(f / kNTiles * 16, f % kNTiles * 8, get, values_[i]);
      }
    }
  }
  __device__ __forceinline__ void Store(PackedB<kPrecision>* to) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
      const int f = warp + i * kWarps;
      if (kFragments % kWarps == 0 || f < kFragments) {
        to[f * 32 + WarpLane()] = PackB<kPrecision>(values_[i]);
      }
    }
  }
  // Fetches and stores at once, a few fragments at a time.
  template <typename Get>
  static __device__ __forceinline__ void Fill(const Get& get,
                                              PackedB<kPrecision>* to) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 2
    for (int f = warp; f < kFragments; f += kWarps) {
      float x[4];
      GatherB(f / kNTiles * 16, f % kNTiles * 8, get, x);
      to[f * 32 + WarpLane()] = PackB<kPrecision>(x);
    }
  }
  static __device__ __forceinline__ BFragment<kPrecision> Load(
      const PackedB<kPrecision>* from, int k_tile, int n_tile) {
    return UnpackB(from[(k_tile * kNTiles + n_tile) * 32 + WarpLane()]);
  }

 private:
  float values_[kOfWarp][4];
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_PACKED_FRAGMENTS_H_
