// How the feed-forward kernels share out their work: functions of the shape
// alone, so that sums have the same bits on every device.
#ifndef COMERA_KERNELS_CUDA_RANK_SPACE_FFN_SPLIT_H_
#define COMERA_KERNELS_CUDA_RANK_SPACE_FFN_SPLIT_H_

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/gpu_limits.h"

namespace comera::kernels {

class RankSpaceFfnSplit {
 public:
  // Hidden units of a block of weights in shared memory.
  static constexpr int64_t kBlockWidth = 64;
  // Tokens and hidden units that a block of threads owns, at most.
  static constexpr int64_t kTokenRows = 128;
  static constexpr int64_t kWeightWidth = 128;
  // Tokens of one turn of the kernel that owns hidden units.
  static constexpr int64_t kTurnRows = 32;
  // Ranks (with the ones) that the kernels hold in registers.
  static constexpr int64_t kMostRank = kMostFusedFfnRank;
  // Tokens whose hidden layer lies in the workspace where ranks are larger.
  static constexpr int64_t kHiddenRows = kUnfusedFfnRows;

  explicit RankSpaceFfnSplit(const RankSpaceFfnShape& s) : s_(s) {}

  bool fused() const {
    return s_.up_rank + 1 <= kMostRank && s_.down_rank <= kMostRank;
  }
  // Ranks in tiles of 16, to the next power of two.
  int rank_tiles() const {
    const int64_t tiles = Ceil(std::max(s_.up_rank + 1, s_.down_rank), 16);
    return tiles <= 1 ? 1 : tiles <= 2 ? 2 : 4;
  }
  int64_t blocks() const { return Ceil(s_.width, kBlockWidth); }
  // The blocks of weights that each block of threads takes in the kernel that
  // owns `tile_rows` tokens per block of threads. With few tokens the width is
  // split too, and what belongs to one token is summed over the parts
  // afterwards.
  int64_t blocks_of_part(int64_t tile_rows) const {
    const int64_t tiles = std::max<int64_t>(Ceil(s_.rows, tile_rows), 1);
    const int64_t wanted = std::max<int64_t>(kBlocks / tiles, 1);
    return std::max<int64_t>(Ceil(blocks(), std::min(wanted, blocks())), 1);
  }
  int64_t parts(int64_t tile_rows) const {
    return std::max<int64_t>(Ceil(blocks(), blocks_of_part(tile_rows)), 1);
  }
  // The ranges into which the kernel that owns hidden units splits the tokens.
  int64_t ranges() const {
    const int64_t wanted = Ceil(kBlocks, Ceil(s_.width, kWeightWidth));
    return std::min(wanted, Ceil(s_.rows, kTurnRows));
  }

  // Floats of the parts' sums, for any number of rows up to that of the shape.
  int64_t TokenFloats() const {
    return std::min(blocks() * s_.rows, kBlocks * kTokenRows) *
           std::max(s_.up_rank, s_.down_rank);
  }
  // Floats of one range's sums: the gradients of B1 and A2 one after the other.
  int64_t RangeFloats() const {
    return (s_.up_rank + 1 + s_.down_rank) * s_.width;
  }
  int64_t HiddenFloats() const {
    return std::min(s_.rows, kHiddenRows) * s_.width;
  }
  int64_t bytes() const {
    const int64_t floats =
        fused() ? TokenFloats() + ranges() * RangeFloats() : 2 * HiddenFloats();
    return floats * int64_t{sizeof(float)};
  }

 private:
  // Blocks of threads that keep a large device busy.
  static constexpr int64_t kBlocks = 2 * kSumMultiprocessors;
  // 0 / 0 is 0.
  static int64_t Ceil(int64_t a, int64_t b) {
    return b == 0 ? 0 : (a + b - 1) / b;
  }

  const RankSpaceFfnShape s_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_RANK_SPACE_FFN_SPLIT_H_
