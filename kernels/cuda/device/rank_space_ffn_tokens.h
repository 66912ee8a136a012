// Formula: t2 = gelu(t1 b1) a2, or grad_t1 = (gelu'(t1 b1) * (u2 a2^T)) b1^T
// for u2 = grad_t2.
// Shapes: t1 (rows, up_rank + 1), b1 (up_rank + 1, width), a2 (width,
// down_rank), u2 (rows, down_rank).
// Threads: a warp owns tokens. It keeps their rank vectors as fragments and
// walks the hidden width in blocks, whose weights all warps share. What a
// block's product with B1 leaves in registers is, after GELU, the left operand
// of the next product.
#ifndef COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FFN_TOKENS_H_
#define COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FFN_TOKENS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/gelu.h"
#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

struct FfnTokens {
  DeviceMatrix t1, b1, a2;
  DeviceMatrix u2;  // the gradient of T2; backward only
  // T2 or the gradient of T1 of part blockIdx.y; `cols` columns.
  float* out;
  int64_t stride, part_floats;
  int cols;
  int blocks, blocks_of_part;
};

// kTiles: of 16, in which ranks are held. 16-row tiles of tokens of a warp: two
// where registers suffice, to use each fragment of the weights twice.
template <CudaPrecision kPrecision, int kTiles, bool kBackward>
struct FfnTokensShape {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kUnits = 64;  // hidden units per block
  static constexpr int kRowTiles =
      kPrecision != CudaPrecision::kFp32 && kTiles <= 2 && !kBackward ? 2 : 1;
  static constexpr int kRows = kWarps * 16 * kRowTiles;
  // (rank, units) and (units, rank).
  using Wide = PanelB<kPrecision, kTiles, kUnits / 8, kWarps>;
  using Narrow = PanelB<kPrecision, kUnits / 16, 2 * kTiles, kWarps>;
  using Tokens = HeldA<kPrecision, kTiles>;
  static constexpr int kPanelBytes =
      (kBackward ? 2 : 1) * Wide::kBytes + Narrow::kBytes;
  static constexpr int kBytes =
      kPanelBytes + (kBackward ? 2 : 1) * kWarps * Tokens::kSharedBytes;
  // Whether the next block's weights wait in registers.
  static constexpr bool kAhead =
      kTiles <= (kPrecision == CudaPrecision::kFp32 && kBackward ? 1 : 2);
};

// sums = tokens (16 kRowTiles, 16 kTiles) times units [16 pair, 16 pair + 16)
// of a panel.
template <typename Wide, CudaPrecision kPrecision, int kRowTiles, int kTiles>
__device__ __forceinline__ void TimesWide(
    const HeldA<kPrecision, kTiles> (&tokens)[kRowTiles],
    const PackedB<kPrecision>* panel, int pair,
    float (&sums)[kRowTiles][2][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 4 * kRowTiles; ++i) sums[i / 4][half][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < kTiles; ++k) {
      const BFragment<kPrecision> b = Wide::Load(panel, k, 2 * pair + half);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyFew<kPrecision>(sums[m][half], tokens[m].At(k), b);
      }
    }
  }
}

template <CudaPrecision kPrecision, int kTiles, bool kBackward>
__global__ __launch_bounds__(
    (FfnTokensShape<kPrecision, kTiles, kBackward>::kThreads),
    2) void FfnTokensKernel(FfnTokens p) {
  WaitForEarlierKernels();
  using Shape = FfnTokensShape<kPrecision, kTiles, kBackward>;
  using Wide = typename Shape::Wide;
  using Narrow = typename Shape::Narrow;
  constexpr int kRowTiles = Shape::kRowTiles;
  auto* b1 = DynamicShared<PackedB<kPrecision>>();
  auto* down = b1 + Wide::kFragments * 32;     // A2, or B1^T
  auto* a2t = down + Narrow::kFragments * 32;  // backward only

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_row =
      (static_cast<int>(blockIdx.x) * Shape::kWarps + warp) * 16 * kRowTiles;
  // rank vectors of the tokens
  typename Shape::Tokens t1[kRowTiles], u2[kRowTiles];
  char* held = DynamicShared<char>() + Shape::kPanelBytes;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    const DeviceMatrix from = p.t1.Block(first_row + 16 * m, 0);
    t1[m].Gather([&](int i, int k) { return from.At(i, k); }, held);
    if constexpr (kBackward) {
      const DeviceMatrix from_u2 = p.u2.Block(first_row + 16 * m, 0);
      u2[m].Gather([&](int i, int k) { return from_u2.At(i, k); },
                   held + Shape::kWarps * Shape::Tokens::kSharedBytes);
    }
  }
  float sums[kRowTiles][2 * kTiles][4] = {};

  DeviceMatrix block_b1, block_a2;
  const auto move_to = [&](int block) {
    block_b1 = p.b1.Block(0, block * Shape::kUnits);
    block_a2 = p.a2.Block(block * Shape::kUnits, 0);
  };
  const auto get_b1 = [&](int k, int n) { return block_b1.At(k, n); };
  const auto get_a2t = [&](int k, int n) { return block_a2.At(n, k); };
  // B1^T has a column for the ones, of which no gradient is written.
  const auto get_down = [&](int k, int n) {
    return kBackward ? block_b1.At(n, k) : block_a2.At(k, n);
  };
  Wide next_b1, next_a2t;
  Narrow next_down;
  const auto fetch = [&](int block) {
    move_to(block);
    next_b1.Fetch(get_b1);
    if constexpr (kBackward) next_a2t.Fetch(get_a2t);
    next_down.Fetch(get_down);
  };

  // walk over blocks of the hidden width
  const int first = static_cast<int>(blockIdx.y) * p.blocks_of_part;
  const int last = min(first + p.blocks_of_part, p.blocks);
  if (Shape::kAhead && first < last) fetch(first);
  for (int block = first; block < last; ++block) {
    __syncthreads();
    if constexpr (Shape::kAhead) {
      next_b1.Store(b1);
      if constexpr (kBackward) next_a2t.Store(a2t);
      next_down.Store(down);
    } else {
      move_to(block);
      Wide::Fill(get_b1, b1);
      if constexpr (kBackward) Wide::Fill(get_a2t, a2t);
      Narrow::Fill(get_down, down);
    }
    __syncthreads();
    if (Shape::kAhead && block + 1 < last) fetch(block + 1);
#pragma unroll 1
    for (int pair = 0; pair < Shape::kUnits / 16; ++pair) {
      // hidden layer, and its gradient
      float hidden[kRowTiles][2][4];
      TimesWide<Wide, kPrecision>(t1, b1, pair, hidden);
      float grad[kRowTiles][2][4];
      if constexpr (kBackward) {
        TimesWide<Wide, kPrecision>(u2, a2t, pair, grad);
      }
      // GELU, or its slope
      AFragment<kPrecision> a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float& x = hidden[m][i / 4][i % 4];
          x = kBackward ? GeluSlope(x) * grad[m][i / 4][i % 4] : GeluOf(x);
        }
        a[m] = MakeA<kPrecision>(hidden[m][0], hidden[m][1]);
      }
      // product with the weights below
#pragma unroll
      for (int n = 0; n < 2 * kTiles; ++n) {
        const BFragment<kPrecision> b = Narrow::Load(down, pair, n);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          Multiply<kPrecision>(sums[m][n], a[m], b);
        }
      }
    }
  }

  // write
  float* out = p.out + blockIdx.y * p.part_floats;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < 2 * kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + 16 * m + LaneGroup() + 8 * (i / 2);
        const int col = 8 * n + LanePair() + i % 2;
        if (row < p.t1.rows && col < p.cols) {
          out[row * p.stride + col] = sums[m][n][i];
        }
      }
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FFN_TOKENS_H_
