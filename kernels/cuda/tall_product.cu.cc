// Formula: c = a b for many rows of a and few columns of b.
// Shapes: a (rows, inner), b (inner, at most 32), c (rows, cols of b).
// Threads: a block keeps all of b in shared memory, as operands of the tensor
// cores, and takes every gridDim.x-th 32 rows of a, which is read once; its
// warps share out these rows and the inner side.
#include "kernels/cuda/tall_product.h"

#include <algorithm>

#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/precision_switch.h"
#include "kernels/cuda/shared_memory.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256, kWarps = 8;
constexpr int kInnerParts = 4;                      // parts of the inner side
constexpr int kRows = 16 * (kWarps / kInnerParts);  // rows of a block
constexpr int kCols = 32, kColTiles = kCols / 8;
constexpr int kAhead = 4;  // steps of 16 whose rows of a are on their way
constexpr int64_t kLeastRows = 256;
constexpr int64_t kSumBytes = kWarps * 16 * kCols * int64_t{sizeof(float)};

int64_t PackedBytes(CudaPrecision precision, int64_t inner) {
  const int64_t lane = precision == CudaPrecision::kBf16 ? 8 : 16;
  return inner / 16 * kColTiles * 32 * lane;
}

// Rows `first` and 8 further of a, from column `k` on.
__device__ __forceinline__ AValues RowsOf(const DeviceMatrix& a, int first,
                                          int k) {
  const int row = first + LaneGroup(), col = k + LanePair();
  const auto pair = [&](int i, int j) {
    return i < a.rows ? *reinterpret_cast<const float2*>(
                            a.data + int64_t{i} * a.stride + j)
                      : make_float2(0, 0);
  };
  const float2 p = pair(row, col), q = pair(row + 8, col);
  const float2 r = pair(row, col + 8), s = pair(row + 8, col + 8);
  return {{p.x, p.y, q.x, q.y}, {r.x, r.y, s.x, s.y}};
}

template <CudaPrecision kPrecision>
__global__ void __launch_bounds__(kThreads, 2)
    TallProductKernel(DeviceMatrix a, DeviceMatrix b, float* c,
                      int64_t c_stride) {
  WaitForEarlierKernels();
  auto* const sums_of_warps = DynamicShared<float>();
  auto* const factor = reinterpret_cast<PackedB<kPrecision>*>(
      sums_of_warps + kWarps * 16 * kCols);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int steps = a.cols / 16;
  for (int f = warp; f < steps * kColTiles; f += kWarps) {
    float x[4];
    GatherB(
        f / kColTiles * 16, f % kColTiles * 8,
        [&](int k, int n) { return b.At(k, n); }, x);
    factor[f * 32 + WarpLane()] = PackB<kPrecision>(x);
  }
  const int part = warp % kInnerParts, row_tile = warp / kInnerParts;
  const int begin = steps * part / kInnerParts;
  const int end = steps * (part + 1) / kInnerParts;
  for (int block_row = static_cast<int>(blockIdx.x) * kRows; block_row < a.rows;
       block_row += static_cast<int>(gridDim.x) * kRows) {
    const int first = block_row + 16 * row_tile;
    float sums[kColTiles][4] = {};
    AValues ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (begin + i < end) ahead[i] = RowsOf(a, first, 16 * (begin + i));
    }
    __syncthreads();  // the factor is there, and the sums before are used
    for (int step = begin; step < end; step += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (step + i >= end) break;
        const auto rows = MakeA<kPrecision>(ahead[i].left, ahead[i].right);
        if (step + i + kAhead < end) {
          ahead[i] = RowsOf(a, first, 16 * (step + i + kAhead));
        }
#pragma unroll
        for (int n = 0; n < kColTiles; ++n) {
          Multiply<kPrecision>(
              sums[n], rows,
              UnpackB(factor[((step + i) * kColTiles + n) * 32 + WarpLane()]));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = LaneGroup() + 8 * (i / 2 % 2);
      const int col = 8 * (i / 4) + LanePair() + i % 2;
      sums_of_warps[(warp * 16 + row) * kCols + col] = sums[i / 4][i % 4];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols;
         i += kThreads) {
      const int row = i / kCols, col = i % kCols;
      if (block_row + row >= a.rows || col >= b.cols) continue;
      float sum = 0;
#pragma unroll
      for (int p = 0; p < kInnerParts; ++p) {
        sum += sums_of_warps[((row / 16 * kInnerParts + p) * 16 + row % 16) *
                                 kCols +
                             col];
      }
      c[(block_row + row) * c_stride + col] = sum;
    }
  }
}

}  // namespace

bool IsTallProduct(CudaPrecision precision, int device, ConstMatrix a,
                   ConstMatrix b) {
  return a.rows >= kLeastRows && a.rows <= (int64_t{1} << 30) &&
         b.cols <= kCols && a.cols >= 64 && a.cols % 16 == 0 &&
         a.stride % 2 == 0 && a.stride <= (int64_t{1} << 30) &&
         b.stride <= (int64_t{1} << 20) &&
         reinterpret_cast<uintptr_t>(a.data) % 8 == 0 &&
         kSumBytes + PackedBytes(precision, a.cols) <=
             SharedBytesPerBlock(device);
}

absl::Status TallProduct(KernelStream stream, CudaPrecision precision,
                         ConstMatrix a, ConstMatrix b, Matrix c) {
  const LaunchShape shape = {
      dim3(Blocks(a.rows, kRows, 2 * Multiprocessors())), dim3(kThreads),
      kSumBytes + PackedBytes(precision, a.cols), stream};
  return SwitchPrecision(precision, [&](auto each) {
    return Launch("TallProduct", shape, TallProductKernel<each.value>,
                  ViewOf(a), ViewOf(b), c.data, c.stride);
  });
}

}  // namespace comera::kernels
