// How the kernels at the ends of a branch in rank space share out their work,
// and where their partial sums lie in the workspace: functions of the shape, so
// that sums have the same bits in every run.
#ifndef COMERA_KERNELS_CUDA_STREAM_SPLIT_H_
#define COMERA_KERNELS_CUDA_STREAM_SPLIT_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/device/expand_layer_norm_backward.h"
#include "kernels/cuda/device/stream_rows.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/product_split.h"

namespace comera::kernels {

class StreamSplit {
 public:
  // Rows whose masked gradient lies in the workspace where 16 whole rows do not
  // fit into shared memory.
  static constexpr int64_t kWideRows = 512;

  // `ranks`: with the ones where these have a column. `shared_bytes`: what a
  // block of threads may have.
  StreamSplit(int64_t rows, int64_t ranks, int64_t cols, int64_t shared_bytes)
      : rows_(rows),
        ranks_(ranks),
        cols_(cols),
        wide_(ExpandBackwardBytes(static_cast<int>(cols)) > shared_bytes) {}

  bool wide() const { return wide_; }
  // The grid of StreamSumsKernel: groups of columns, ranges of rows, groups of
  // ranks.
  int rank_tiles() const { return ranks_ <= 16 ? 1 : ranks_ <= 32 ? 2 : 4; }
  int64_t rank_groups() const { return Ceil(ranks_, 16 * rank_tiles()); }
  int64_t column_groups() const { return Ceil(cols_, kGroupColumns); }
  int64_t ranges() const {
    const int64_t columns =
        std::max<int64_t>(column_groups() * rank_groups(), 1);
    return std::min(Ceil(kBlocks, columns), Ceil(rows_, 16 * kStreamWarps));
  }
  int64_t range_rows() const { return Ceil(rows_, ranges()); }
  // InvalidArgument: more groups than StreamSums::arrived has numbers.
  absl::Status CheckGroups(const char* op) const {
    if (column_groups() * rank_groups() <= GroupedLaunches::kMostTiles) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": rank ", ranks_, " and ", cols_, " columns are too many"));
  }
  // The grid of ExpandBackwardKernel.
  int64_t row_blocks() const {
    return std::min(Ceil(rows_, kStreamRows), kBlocks);
  }

  // Offsets in the workspace, in floats.
  int64_t product_sums() const { return 0; }
  int64_t vector_sums() const { return ranges() * ranks_ * cols_; }
  int64_t keep_words() const {
    return vector_sums() + row_blocks() * 2 * cols_;
  }
  int64_t bytes() const {
    const int64_t floats =
        std::max(keep_words() + rows_ * column_groups(),
                 wide_ ? std::min(rows_, kWideRows) * cols_ : 0);
    return floats * static_cast<int64_t>(sizeof(float));
  }

 private:
  // Blocks of threads that keep a large device busy.
  static constexpr int64_t kBlocks = 2 * kSumMultiprocessors;
  static int64_t Ceil(int64_t a, int64_t b) {
    return b == 0 ? 0 : (a + b - 1) / b;
  }

  const int64_t rows_, ranks_, cols_;
  const bool wide_;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_STREAM_SPLIT_H_
