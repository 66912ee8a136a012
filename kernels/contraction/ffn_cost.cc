// Estimates a feed-forward layer between rank vectors, fused or not.
#include "kernels/contraction/ffn_cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/gpu_cost.h"
#include "kernels/gpu_limits.h"

namespace comera::kernels {
namespace {

// The processor's tiles (kernels/cpu/products/panel_product.h). Ranks are
// filled up to multiples of kRankStep.
constexpr double kRankStep = 16;
constexpr double kTileRows = 96;
constexpr double kPanelWidth = 128;
// The part of a core's own cache that weights and sums of a block may fill.
constexpr double kCacheBytes = 768 << 10;
// The share of a pass over memory that a pass over a block of the hidden layer
// takes: blocks of rows stay in the processor's outer cache.
constexpr double kBlockedPass = 0.25;
// GELU with its slope takes little more than GELU alone.
constexpr double kBothMath = 1.15;

double FilledUp(double rank) { return std::ceil(rank / kRankStep) * kRankStep; }

struct Sizes {
  explicit Sizes(const RankSpaceFfnShape& s)
      : rows(static_cast<double>(s.rows)),
        width(static_cast<double>(s.width)),
        up(static_cast<double>(s.up_rank) + 1),
        down(static_cast<double>(s.down_rank)),
        hidden(rows * width) {}
  double rows, width, up, down, hidden;
};

// Reading a block's operands for every tile, if they do not stay in cache.
double RereadSeconds(const Sizes& s, double floats_per_unit,
                     const MachineSpeed& speed) {
  const double block_bytes = 4 * kPanelWidth * floats_per_unit;
  if (block_bytes <= kCacheBytes) return 0;
  return MoveSeconds(speed,
                     4 * s.width * floats_per_unit * (s.rows / kTileRows));
}

// On a GPU: the products, and GELU as passes of their own.
FfnSeconds HiddenOnGpu(const Sizes& s, const MachineSpeed& speed) {
  const double up = GemmSeconds(speed, s.rows, s.width, s.up);
  const double down = GemmSeconds(speed, s.rows, s.down, s.width);
  const auto pass = [&](double passes) {
    GpuWork work;
    work.bytes = 4 * passes * s.hidden;
    work.functions = s.hidden;
    return GpuSeconds(work, speed);
  };
  return {up + down + pass(2), 3 * up + 2 * down + pass(2) + pass(3)};
}

FfnSeconds FusedOnGpu(const Sizes& s, const MachineSpeed& speed) {
  GpuWork work;
  work.kind = GpuWork::kFused;
  work.launches = 2;
  work.multiply_adds = s.hidden * (s.up + s.down);
  const double forward = GpuSeconds(work, speed);
  work.launches = 3;
  work.multiply_adds = s.hidden * (3 * s.up + 2 * s.down);
  return {forward, GpuSeconds(work, speed)};
}

}  // namespace

FfnSeconds HiddenFfnSeconds(const RankSpaceFfnShape& shape,
                            const MachineSpeed& speed) {
  const Sizes s(shape);
  if (speed.gpu) return HiddenOnGpu(s, speed);
  const double up = GemmSeconds(speed, s.rows, s.width, s.up);
  const double down = GemmSeconds(speed, s.rows, s.down, s.width);
  const double math = s.hidden / speed.math_rate;
  const double pass = kBlockedPass * MoveSeconds(speed, 4 * s.hidden);
  // Forward: up is written, read and written by GELU, read by down. Backward:
  // that once more but for down; then GELU's output, its gradient, which is
  // written, changed, and read twice, and the slope's input.
  return {up + down + math + 4 * pass, 3 * up + 2 * down + 2 * math + 9 * pass};
}

FfnSeconds RankSpaceFfnSeconds(const RankSpaceFfnShape& shape,
                               const MachineSpeed& speed) {
  const Sizes s(shape);
  if (speed.gpu) return FusedOnGpu(s, speed);
  const double up_filled = FilledUp(s.up - 1);
  const double down_filled = FilledUp(s.down);
  const double forward = s.hidden * (s.up + down_filled);
  const double backward = s.hidden * (2 * s.up + 2 * s.down + up_filled);
  const double math = s.hidden / speed.math_rate;
  return {speed.call_seconds + forward / speed.square_rate + math +
              RereadSeconds(s, s.up + down_filled, speed),
          speed.call_seconds + backward / speed.square_rate + kBothMath * math +
              RereadSeconds(s, 2 * s.up + 2 * s.down + up_filled, speed)};
}

bool RankSpaceFfnPays(const RankSpaceFfnShape& shape,
                      const MachineSpeed& speed) {
  // Beyond, the GPU's kernel falls apart into products of few rows.
  if (speed.gpu && (shape.up_rank + 1 > kMostFusedFfnRank ||
                    shape.down_rank > kMostFusedFfnRank)) {
    return false;
  }
  return RankSpaceFfnSeconds(shape, speed).total() <
         HiddenFfnSeconds(shape, speed).total();
}

}  // namespace comera::kernels
