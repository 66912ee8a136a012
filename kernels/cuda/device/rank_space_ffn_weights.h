// Formula: with H = t1 b1 and g = gelu'(H) * (u2 a2^T) for u2 = grad_t2, the
// sums over tokens grad_b1 = t1^T g and grad_a2 = gelu(H)^T u2.
// Shapes: t1 (rows, up_rank + 1), b1 (up_rank + 1, width), a2 (width,
// down_rank), u2 (rows, down_rank).
// Threads: a warp owns 16 hidden units and keeps their sums in registers while
// tokens go by. Units are the rows of its products, so that the hidden layer,
// transposed, is again the left operand of the next.
#ifndef COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FFN_WEIGHTS_H_
#define COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FFN_WEIGHTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/gelu.h"
#include "kernels/cuda/device/packed_fragments.h"
#include "kernels/cuda/device/ptx.h"

namespace comera::kernels {

struct FfnWeights {
  DeviceMatrix t1, b1, a2, u2;
  // The sums of range blockIdx.y: the gradient of B1 (up, width), then that of
  // A2 (width, down).
  float* sums;
  int64_t range_floats;
  int range_rows;
};

template <CudaPrecision kPrecision, int kTiles>
struct FfnWeightsShape {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kUnits = 16 * kWarps;
  static constexpr int kTokens = 32;  // per turn
  // (rank, tokens) and (tokens, rank).
  using Wide = PanelB<kPrecision, kTiles, kTokens / 8, kWarps>;
  using Narrow = PanelB<kPrecision, kTokens / 16, 2 * kTiles, kWarps>;
  using Units = HeldA<kPrecision, kTiles>;
  static constexpr int kPanelBytes = 2 * (Wide::kBytes + Narrow::kBytes);
  static constexpr int kBytes = kPanelBytes + 2 * kWarps * Units::kSharedBytes;
  // Blocks of threads per multiprocessor for which registers suffice.
  static constexpr int kResident =
      (kTiles == 1 && kPrecision == CudaPrecision::kTf32) ||
              (kTiles <= 2 && kPrecision == CudaPrecision::kBf16)
          ? 2
          : 1;
  // Whether the next tokens wait in registers.
  static constexpr bool kAhead =
      kTiles <= (kPrecision == CudaPrecision::kFp32 ? 1 : 2);
};

template <CudaPrecision kPrecision, int kTiles>
__global__ __launch_bounds__(
    (FfnWeightsShape<kPrecision, kTiles>::kThreads),
    (FfnWeightsShape<kPrecision,
                     kTiles>::kResident)) void FfnWeightsKernel(FfnWeights p) {
  WaitForEarlierKernels();
  using Shape = FfnWeightsShape<kPrecision, kTiles>;
  using Wide = typename Shape::Wide;
  using Narrow = typename Shape::Narrow;
  auto* t1_wide = DynamicShared<PackedB<kPrecision>>();
  auto* u2_wide = t1_wide + Wide::kFragments * 32;
  auto* t1_narrow = u2_wide + Wide::kFragments * 32;
  auto* u2_narrow = t1_narrow + Narrow::kFragments * 32;

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int unit = (static_cast<int>(blockIdx.x) * Shape::kWarps + warp) * 16;
  typename Shape::Units b1, a2;
  char* held = DynamicShared<char>() + Shape::kPanelBytes;
  const DeviceMatrix from_b1 = p.b1.Block(0, unit);
  const DeviceMatrix from_a2 = p.a2.Block(unit, 0);
  b1.Gather([&](int i, int k) { return from_b1.At(k, i); }, held);
  a2.Gather([&](int i, int k) { return from_a2.At(i, k); },
            held + Shape::kWarps * Shape::Units::kSharedBytes);
  float grad_b1[2 * kTiles][4] = {}, grad_a2[2 * kTiles][4] = {};

  const int begin = static_cast<int>(blockIdx.y) * p.range_rows;
  const int end = min(begin + p.range_rows, p.t1.rows);
  // Tokens behind the range are zeros, which add nothing.
  const DeviceMatrix all_t1 = {p.t1.data, p.t1.stride, end, p.t1.cols};
  const DeviceMatrix all_u2 = {p.u2.data, p.u2.stride, end, p.u2.cols};
  DeviceMatrix t1, u2;  // the tokens of a turn
  const auto move_to = [&](int row) {
    t1 = all_t1.Block(row, 0);
    u2 = all_u2.Block(row, 0);
  };
  const auto get_t1 = [&](int k, int n) { return t1.At(n, k); };
  const auto get_u2 = [&](int k, int n) { return u2.At(n, k); };
  const auto get_t1_narrow = [&](int k, int n) { return t1.At(k, n); };
  const auto get_u2_narrow = [&](int k, int n) { return u2.At(k, n); };
  Wide next_t1, next_u2;
  Narrow next_t1_narrow, next_u2_narrow;
  const auto fetch = [&](int row) {
    move_to(row);
    next_t1.Fetch(get_t1);
    next_u2.Fetch(get_u2);
    next_t1_narrow.Fetch(get_t1_narrow);
    next_u2_narrow.Fetch(get_u2_narrow);
  };

  if (Shape::kAhead && begin < end) fetch(begin);
  for (int row = begin; row < end; row += Shape::kTokens) {
    __syncthreads();
    if constexpr (Shape::kAhead) {
      next_t1.Store(t1_wide);
      next_u2.Store(u2_wide);
      next_t1_narrow.Store(t1_narrow);
      next_u2_narrow.Store(u2_narrow);
    } else {
      move_to(row);
      Wide::Fill(get_t1, t1_wide);
      Wide::Fill(get_u2, u2_wide);
      Narrow::Fill(get_t1_narrow, t1_narrow);
      Narrow::Fill(get_u2_narrow, u2_narrow);
    }
    __syncthreads();
    if (Shape::kAhead && row + Shape::kTokens < end) {
      fetch(row + Shape::kTokens);
    }
#pragma unroll 1
    for (int pair = 0; pair < Shape::kTokens / 16; ++pair) {
      // hidden layer and its gradient, transposed
      float hidden[2][4] = {}, grad[2][4] = {};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int k = 0; k < kTiles; ++k) {
          MultiplyFew<kPrecision>(hidden[half], b1.At(k),
                                  Wide::Load(t1_wide, k, 2 * pair + half));
          MultiplyFew<kPrecision>(grad[half], a2.At(k),
                                  Wide::Load(u2_wide, k, 2 * pair + half));
        }
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const GeluPair gelu = GeluAndSlope(hidden[i / 4][i % 4]);
        hidden[i / 4][i % 4] = gelu.value;
        grad[i / 4][i % 4] *= gelu.slope;
      }
      // sums over the tokens
      const auto h = MakeA<kPrecision>(hidden[0], hidden[1]);
      const auto g = MakeA<kPrecision>(grad[0], grad[1]);
#pragma unroll
      for (int n = 0; n < 2 * kTiles; ++n) {
        Multiply<kPrecision>(grad_a2[n], h, Narrow::Load(u2_narrow, pair, n));
        Multiply<kPrecision>(grad_b1[n], g, Narrow::Load(t1_narrow, pair, n));
      }
    }
  }

  // write
  const int64_t width = p.b1.cols;
  float* to_b1 = p.sums + blockIdx.y * p.range_floats;
  float* to_a2 = to_b1 + p.b1.rows * width;
#pragma unroll
  for (int n = 0; n < 2 * kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = unit + LaneGroup() + 8 * (i / 2);
      const int rank = 8 * n + LanePair() + i % 2;
      if (at < width && rank < p.b1.rows) {
        to_b1[rank * width + at] = grad_b1[n][i];
      }
      if (at < width && rank < p.a2.cols) {
        to_a2[int64_t{at} * p.a2.cols + rank] = grad_a2[n][i];
      }
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_RANK_SPACE_FFN_WEIGHTS_H_
