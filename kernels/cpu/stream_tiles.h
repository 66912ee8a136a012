// The ends of a block's branch in rank space: products between rank vectors and
// rows of the residual stream. A task is a range of rows, taken through scratch
// memory in tiles of whole rows that lie panel by panel, as the panel products
// want them; so the stream is read and written once. What is summed over rows
// goes to one sum per range; there are as many ranges as any sum over rows of
// this backend has, so the results do not depend on the number of threads.
#ifndef COMERA_KERNELS_CPU_STREAM_TILES_H_
#define COMERA_KERNELS_CPU_STREAM_TILES_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/panel_pack.h"
#include "kernels/cpu/products/panel_product.h"
#include "kernels/tensor.h"

namespace comera::kernels {

inline constexpr int64_t kStreamRows = 4 * kPanelRowStep;
inline constexpr int64_t kPanelTile = kStreamRows * kPanelStride;

// Where everything lies in the workspace (in floats).
struct StreamLayout {
  StreamLayout(int64_t rows, int64_t rank, int64_t cols)
      : rows(rows),
        rank(rank),
        up(rank + 1),
        cols(cols),
        padded(RoundUp(rank, kPanelRankStep)),
        panels((cols + kPanelWidth - 1) / kPanelWidth),
        width(panels * kPanelWidth),
        ranges(ReductionBlocks(rows)) {
    // Per range: the sums of the gradients of B~, gamma and beta, or of A^T.
    sum_floats = (up + 2) * width;
    scratch = ranges * sum_floats;
    // Per thread: the packed weights, the tile, one panel of a product, rows
    // of rank vectors that do not fill a step, and sums of those.
    packed = 0;
    tile = packed + width * (padded + kPanelRankStep);
    product = tile + panels * kPanelTile;
    edge = product + kPanelTile;
    token_sums = edge + RoundUp(kPanelRowStep * up, 16);
    scratch_floats = token_sums + kStreamRows * padded;
  }
  int64_t bytes(int threads) const {
    return (scratch + threads * scratch_floats) *
           static_cast<int64_t>(sizeof(float));
  }
  // Whole steps, so that only the last range ends with rows that do not fill
  // one; ranges may be empty.
  int64_t RangeBegin(int64_t range) const {
    const int64_t begin = (rows * range + ranges - 1) / ranges;
    return std::min(rows, RoundUp(begin, kPanelRowStep));
  }
  int64_t PanelColumns(int64_t panel) const {
    return std::min(kPanelWidth, cols - panel * kPanelWidth);
  }

  const int64_t rows, rank, up, cols, padded, panels, width, ranges;
  int64_t sum_floats, scratch;
  int64_t packed, tile, product, edge, token_sums, scratch_floats;
};

// Rows of a tile, filled up to whole steps, and their rank vectors: zeros where
// there are no rows.
struct StreamTile {
  int64_t first, count, filled;
  bool first_of_range;
  ConstMatrix t;
};
// Calls f(tile) for the rows of a range.
template <typename F>
void ForTiles(const StreamLayout& layout, int64_t range, ConstMatrix t,
              float* edge, const F& f) {
  const int64_t begin = layout.RangeBegin(range);
  const int64_t end = layout.RangeBegin(range + 1);
  for (int64_t i = begin; i < end;) {
    int64_t count = std::min(kStreamRows, end - i);
    if (count > kPanelRowStep) count -= count % kPanelRowStep;
    StreamTile tile = {
        i, count, RoundUp(count, kPanelRowStep), i == begin,
        ConstMatrix(t.data + i * t.stride, count, t.cols, t.stride)};
    if (tile.filled != count) {
      PackRows(tile.t, t.cols, edge);
      std::fill(edge + count * t.cols, edge + tile.filled * t.cols, 0.0f);
      tile.t = ConstMatrix(edge, tile.filled, t.cols);
    }
    f(tile);
    i += count;
  }
}

// Per thread prepare(scratch), then task(range, scratch) for its ranges.
template <typename Prepare, typename Task>
void ForRanges(int threads, const StreamLayout& layout, float* workspace,
               const Prepare& prepare, const Task& task) {
  const int64_t slots = std::min<int64_t>(threads, layout.ranges);
  const int64_t cost = layout.rows * layout.cols * layout.up / slots;
  ParallelRanges(threads, slots, cost, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      float* scratch =
          workspace + layout.scratch + slot * layout.scratch_floats;
      prepare(scratch);
      for (int64_t i = layout.ranges * slot / slots;
           i < layout.ranges * (slot + 1) / slots; ++i) {
        task(i, scratch);
      }
    }
  });
}

// to[c] += the ranges' sums in order, for row k of what each range summed:
// panel by panel `panel_rows` rows.
inline void AddRanges(const StreamLayout& layout, const float* sums,
                      int64_t panel_rows, int64_t k, float* to) {
  for (int64_t range = 0; range < layout.ranges; ++range) {
    const float* from = sums + range * layout.sum_floats + k * kPanelWidth;
    for (int64_t p = 0; p < layout.panels; ++p) {
      float* part = to + p * kPanelWidth;
      SumRun(from, nullptr, part, part, layout.PanelColumns(p));
      from += panel_rows * kPanelWidth;
    }
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_STREAM_TILES_H_
