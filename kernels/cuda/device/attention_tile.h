// What the kernels of ordinary and of rank-space attention share: a warp has 16
// queries (or, for the gradients of keys, 16 keys) and walks over tiles of the
// other side, which lie in shared memory, kWidth wide: widths are padded with
// zeros to it, and rows lie kRowStride<kWidth> apart.
#ifndef COMERA_KERNELS_CUDA_DEVICE_ATTENTION_TILE_H_
#define COMERA_KERNELS_CUDA_DEVICE_ATTENTION_TILE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/mma_tile.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// The distance of rows, without bank conflicts for pairs along rows.
template <int kWidth>
inline constexpr int kRowStride = kWidth + 8;

// Sums of 16 rows by kCols columns.
template <int kCols>
using TileSums = float[kCols / 8][4];

template <int kCols>
__device__ __forceinline__ void SetZero(float (&x)[kCols][4]) {
#pragma unroll
  for (int j = 0; j < kCols; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[j][i] = 0;
  }
}

// Four neighbours in memory, as floats; `from` is aligned to all of them.
__device__ __forceinline__ float4 Load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ __forceinline__ float4 Load4(const uint16_t* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  return make_float4(ToFloat(static_cast<uint16_t>(bits.x)),
                     ToFloat(static_cast<uint16_t>(bits.x >> 16)),
                     ToFloat(static_cast<uint16_t>(bits.y)),
                     ToFloat(static_cast<uint16_t>(bits.y >> 16)));
}

// Whole rows of kWidth numbers that Load4 can read, to bfloat16: eight loads of
// a thread are under way at a time.
template <int kWidth, typename S>
__device__ __forceinline__ void LoadWholeRows(const S* from, int64_t stride,
                                              int rows, int valid, float scale,
                                              uint16_t* to) {
  constexpr int kQuads = kWidth / 4;
  constexpr int kLoads = 8;
  const int threads = static_cast<int>(blockDim.x);
  for (int first = static_cast<int>(threadIdx.x); first < rows * kQuads;
       first += kLoads * threads) {
    float4 x[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = first + i * threads;
      const int row = at / kQuads, col = at % kQuads * 4;
      x[i] = row < min(rows, valid) ? Load4(from + row * stride + col)
                                    : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = first + i * threads;
      const int row = at / kQuads, col = at % kQuads * 4;
      if (row >= rows) continue;
      *reinterpret_cast<uint2*>(to + row * kRowStride<kWidth> + col) =
          make_uint2(PackBf16(scale * x[i].x, scale * x[i].y),
                     PackBf16(scale * x[i].z, scale * x[i].w));
    }
  }
}

// Columns [first_col, first_col + cols) of `rows` rows, of which only `valid`
// exist, times `scale` to shared memory. All threads of the block.
template <int kWidth, typename S, typename T>
__device__ __forceinline__ void LoadRows(MatrixView<const S> m,
                                         int64_t first_row, int64_t first_col,
                                         int cols, int rows, int valid,
                                         float scale, T* to) {
  constexpr int kQuads = kWidth / 4;
  const S* from = m.data + first_row * m.stride + first_col;
  const bool aligned =
      reinterpret_cast<uintptr_t>(from) % (4 * sizeof(S)) == 0 &&
      m.stride % 4 == 0;
  // Narrow kernels, which hold more blocks, lack the registers.
  if constexpr (sizeof(T) == sizeof(uint16_t) && kWidth > 32) {
    if (aligned && cols == kWidth) {
      LoadWholeRows<kWidth>(from, m.stride, rows, valid, scale, to);
      return;
    }
  }
#pragma unroll 2
  for (int at = static_cast<int>(threadIdx.x); at < rows * kQuads;
       at += static_cast<int>(blockDim.x)) {
    const int row = at / kQuads, col = at % kQuads * 4;
    float4 x = make_float4(0, 0, 0, 0);
    if (row < valid) {
      const S* source = from + row * m.stride + col;
      if (aligned && col + 4 <= cols) {
        x = Load4(source);
      } else {
        if (col < cols) x.x = ToFloat(source[0]);
        if (col + 1 < cols) x.y = ToFloat(source[1]);
        if (col + 2 < cols) x.z = ToFloat(source[2]);
        if (col + 3 < cols) x.w = ToFloat(source[3]);
      }
    }
    T* const target = to + row * kRowStride<kWidth> + col;
    Store2(scale * x.x, scale * x.y, target);
    Store2(scale * x.z, scale * x.w, target + 2);
  }
}

// Sums of kCols columns, times `scale`, to 16 rows of shared memory of kWidth.
template <int kCols, int kWidth = kCols, typename T>
__device__ __forceinline__ void StoreSums(const float (&x)[kCols / 8][4],
                                          float scale, T* rows) {
  T* const upper = rows + LaneGroup() * kRowStride<kWidth> + LanePair();
  T* const lower = upper + 8 * kRowStride<kWidth>;
#pragma unroll
  for (int j = 0; j < kCols / 8; ++j) {
    Store2(scale * x[j][0], scale * x[j][1], upper + 8 * j);
    Store2(scale * x[j][2], scale * x[j][3], lower + 8 * j);
  }
}

// Row sums of x and 16 rows of shared memory, for the lane's two rows.
template <int kWidth, typename T>
__device__ __forceinline__ void RowDots(const float (&x)[kWidth / 8][4],
                                        const T* rows, float (&dots)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const T* const at =
        rows + (LaneGroup() + 8 * r) * kRowStride<kWidth> + LanePair();
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
      sum += x[j][2 * r] * ToFloat(at[8 * j]) +
             x[j][2 * r + 1] * ToFloat(at[8 * j + 1]);
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    dots[r] = sum + __shfl_xor_sync(0xffffffffu, sum, 2);
  }
}

// The same for x in global memory, of which only the first `count` rows and the
// columns below `cols` count.
template <int kWidth, typename S, typename T>
__device__ __forceinline__ void RowDots(const S* x, int64_t stride, int count,
                                        int cols, const T* rows,
                                        float (&dots)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = LaneGroup() + 8 * r;
    const S* const from = x + row * stride;
    const T* const at = rows + row * kRowStride<kWidth>;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kWidth / 4; ++j) {
      const int col = 8 * (j / 2) + LanePair() + j % 2;
      if (row < count && col < cols) {
        sum += ToFloat(from[col]) * ToFloat(at[col]);
      }
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    dots[r] = sum + __shfl_xor_sync(0xffffffffu, sum, 2);
  }
}

__device__ __forceinline__ void StoreTo(float x, float* to) { *to = x; }
__device__ __forceinline__ void StoreTo(float x, uint16_t* to) {
  *to = static_cast<uint16_t>(PackBf16(x, 0));
}

// Sums to the rows of a matrix, the first `rows` and the columns below `cols`.
template <int kWidth, typename T>
__device__ __forceinline__ void WriteSums(const float (&x)[kWidth / 8][4],
                                          float scale, int rows, int cols,
                                          T* to, int64_t stride) {
  const bool pairs = kWidth > 32 &&
                     reinterpret_cast<uintptr_t>(to) % (2 * sizeof(T)) == 0 &&
                     stride % 2 == 0 && cols == kWidth;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = LaneGroup() + 8 * half;
    if (row >= rows) continue;
    T* const target = to + row * stride + LanePair();
    if (pairs) {
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        Store2(scale * x[j][2 * half], scale * x[j][2 * half + 1],
               target + 8 * j);
      }
      continue;
    }
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
      const int col = 8 * j + LanePair();
      if (col < cols) StoreTo(scale * x[j][2 * half], target + 8 * j);
      if (col + 1 < cols) {
        StoreTo(scale * x[j][2 * half + 1], target + 8 * j + 1);
      }
    }
  }
}

// The 16 rows of a warp as left operand of many products: in registers, or, if
// these are too many, in shared memory.
template <CudaPrecision kPrecision, int kWidth, bool kRegisters>
class HeldRows {
 public:
  static constexpr bool kInRegisters = false;
  // Rows in shared memory, which must stay.
  __device__ __forceinline__ explicit HeldRows(const Stored<kPrecision>* rows)
      : rows_(rows) {}
  // `rows` is where the sums may be put; the warp waits for itself.
  __device__ __forceinline__ HeldRows(const float (&sums)[kWidth / 8][4],
                                      Stored<kPrecision>* rows)
      : rows_(rows) {
    StoreSums<kWidth>(sums, 1, rows);
    __syncwarp();
  }
  __device__ __forceinline__ AFragment<kPrecision> operator()(int chunk) const {
    return LoadA<kPrecision>(rows_ + 16 * chunk, kRowStride<kWidth>);
  }

 private:
  const Stored<kPrecision>* rows_;
};

template <CudaPrecision kPrecision, int kWidth>
class HeldRows<kPrecision, kWidth, true> {
 public:
  static constexpr bool kInRegisters = true;
  __device__ __forceinline__ explicit HeldRows(const Stored<kPrecision>* rows) {
#pragma unroll
    for (int c = 0; c < kWidth / 16; ++c) {
      fragments_[c] = LoadA<kPrecision>(rows + 16 * c, kRowStride<kWidth>);
    }
  }
  __device__ __forceinline__ HeldRows(const float (&sums)[kWidth / 8][4],
                                      Stored<kPrecision>*) {
#pragma unroll
    for (int c = 0; c < kWidth / 16; ++c) {
      fragments_[c] = MakeA<kPrecision>(sums[2 * c], sums[2 * c + 1]);
    }
  }
  __device__ __forceinline__ AFragment<kPrecision> operator()(int chunk) const {
    return fragments_[chunk];
  }

 private:
  AFragment<kPrecision> fragments_[kWidth / 16];
};

// Two numbers per value, which are cheap to part again.
template <int kWidth>
class HeldRows<CudaPrecision::kFp32, kWidth, true> {
 public:
  static constexpr bool kInRegisters = true;
  __device__ __forceinline__ explicit HeldRows(const float* rows) {
    const float* upper = rows + LaneGroup() * kRowStride<kWidth> + LanePair();
    const float* lower = upper + 8 * kRowStride<kWidth>;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
      const float2 x = *reinterpret_cast<const float2*>(upper + 8 * j);
      const float2 y = *reinterpret_cast<const float2*>(lower + 8 * j);
      sums_[j][0] = x.x;
      sums_[j][1] = x.y;
      sums_[j][2] = y.x;
      sums_[j][3] = y.y;
    }
  }
  __device__ __forceinline__ HeldRows(const float (&sums)[kWidth / 8][4],
                                      float*) {
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums_[j][i] = sums[j][i];
    }
  }
  __device__ __forceinline__ AFragment<CudaPrecision::kFp32> operator()(
      int chunk) const {
    return MakeA<CudaPrecision::kFp32>(sums_[2 * chunk], sums_[2 * chunk + 1]);
  }

 private:
  float sums_[kWidth / 8][4];
};

// Sums as left operand, made into fragments one by one.
template <CudaPrecision kPrecision, int kWidth>
class SumsAsRows {
 public:
  static constexpr bool kInRegisters = true;
  __device__ __forceinline__ explicit SumsAsRows(
      const float (&sums)[kWidth / 8][4])
      : sums_(sums) {}
  __device__ __forceinline__ AFragment<kPrecision> operator()(int chunk) const {
    return MakeA<kPrecision>(sums_[2 * chunk], sums_[2 * chunk + 1]);
  }

 private:
  const float (&sums_)[kWidth / 8][4];
};

// Stands before number `j` of products in a row: where registers are full
// anyway, the compiler may fetch operands for only a few of them ahead.
template <CudaPrecision kPrecision, int kWidth>
__device__ __forceinline__ void FetchNoFurther(int j) {
  if constexpr (kWidth > 64 && kPrecision != CudaPrecision::kBf16) {
    __syncwarp();
  } else if constexpr (kWidth > 64 ||
                       (kWidth > 32 && kPrecision != CudaPrecision::kBf16)) {
    if (j % 2 == 0) __syncwarp();
  }
}

// Whether right operands are loaded two at a time, where registers suffice.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr bool kLoadsPairs =
    kPrecision == CudaPrecision::kBf16&& kWidth > 32;

// sums (16, kCols) = a times the transpose of kCols rows of shared memory.
template <CudaPrecision kPrecision, int kWidth, int kCols, typename Held>
__device__ __forceinline__ void MultiplyByRows(const Held& a,
                                               const Stored<kPrecision>* rows,
                                               float (&sums)[kCols / 8][4]) {
  SetZero(sums);
  // What does not lie in registers needs none for products to come.
  [[maybe_unused]] constexpr int kUnroll = Held::kInRegisters ? kWidth / 16
                                           : kPrecision == CudaPrecision::kFp32
                                               ? 1
                                               : 2;
#pragma unroll kUnroll
  for (int c = 0; c < kWidth / 16; ++c) {
    const AFragment<kPrecision> left = a(c);
    if constexpr (kLoadsPairs<kPrecision, kWidth>) {
      static_assert(kCols % 16 == 0);
#pragma unroll
      for (int j = 0; j < kCols / 8; j += 2) {
        const auto right = LoadBPairTransposed<kPrecision>(
            rows + 8 * j * kRowStride<kWidth> + 16 * c, kRowStride<kWidth>);
        MultiplyFew(sums[j], left, right.left);
        MultiplyFew(sums[j + 1], left, right.right);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kCols / 8; ++j) {
        MultiplyFew(sums[j], left,
                    LoadBTransposed<kPrecision>(
                        rows + 8 * j * kRowStride<kWidth> + 16 * c,
                        kRowStride<kWidth>));
      }
    }
  }
}

// sums (16, kWidth) += x (16, kInner), itself sums, times kInner rows.
template <CudaPrecision kPrecision, int kWidth, int kInner>
__device__ __forceinline__ void AddTimesRows(const float (&x)[kInner / 8][4],
                                             const Stored<kPrecision>* rows,
                                             float (&sums)[kWidth / 8][4]) {
#pragma unroll
  for (int c = 0; c < kInner / 16; ++c) {
    const AFragment<kPrecision> left =
        MakeA<kPrecision>(x[2 * c], x[2 * c + 1]);
    const auto* const inner = rows + 16 * c * kRowStride<kWidth>;
    if constexpr (kLoadsPairs<kPrecision, kWidth>) {
#pragma unroll
      for (int j = 0; j < kWidth / 8; j += 2) {
        FetchNoFurther<kPrecision, kWidth>(j);
        const auto right =
            LoadBPair<kPrecision>(inner + 8 * j, kRowStride<kWidth>);
        Multiply(sums[j], left, right.left);
        Multiply(sums[j + 1], left, right.right);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        FetchNoFurther<kPrecision, kWidth>(j);
        Multiply(sums[j], left,
                 LoadB<kPrecision>(inner + 8 * j, kRowStride<kWidth>));
      }
    }
  }
}

// The sum over the four lanes that share a row.
__device__ __forceinline__ float RowSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float RowMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// exp(x - shift); -infinity gives 0.
template <CudaPrecision kPrecision>
__device__ __forceinline__ float ExpOf(float x, float shift) {
  constexpr float kLog2E = 1.4426950408889634f;
  if constexpr (kPrecision == CudaPrecision::kFp32) {
    return exp2f((x - shift) * kLog2E);
  } else {
    // One operation less where `shift` is the same for many x; errors of some
    // 2^-23 |x|, far below those of the products.
    return Exp2Approximate(fmaf(x, kLog2E, -shift * kLog2E));
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_ATTENTION_TILE_H_
