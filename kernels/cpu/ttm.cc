// Products of pairs of blocks. All pairs with one block of R are taken
// together: its tiles are packed once and meet the rows of all their blocks of
// L. Threads share pairs, blocks of R or blocks of L, whichever they write, and
// every sum has one owner and one order.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/check_indices.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/block_tiles.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int64_t kChunkRows = 96;  // whole register blocks, at most a tile
static_assert(kChunkRows <= kTileDepth);

int64_t LeftCols(const TtmTables& t) { return t.left_outer * t.left_inner; }
int64_t LeftSize(const TtmTables& t) {
  return t.left_rows * LeftCols(t) * t.rank;
}
int64_t RightSize(const TtmTables& t) {
  return t.right_rows * t.right_cols * t.rank;
}
// Multiply-adds of one pair.
int64_t PairCost(const TtmTables& t) {
  return LeftCols(t) * t.rank * t.right_cols;
}
// Pairs that there are, of those that there is room for.
int64_t UsedPairs(const TtmPairs& pairs) {
  return pairs.start.data[pairs.start.size - 1];
}
// Distance of the rows of a block of R, and its place.
int64_t RightStride(const TtmTables& t) {
  return t.right_blocks ? t.right_cols : t.right_rows * t.right_cols;
}
int64_t RightBlock(const TtmTables& t, int64_t s) {
  return t.right_cols * s * (t.right_blocks ? t.rank : 1);
}

absl::Status CheckLookup(const char* op, const TtmTables& t, const float* left,
                         const float* right, const TtmPairs& pairs,
                         ConstMatrix out) {
  RETURN_IF_ERROR(CheckTtm(op, t));
  RETURN_IF_ERROR(CheckMemory(op, "left", left, LeftSize(t)));
  RETURN_IF_ERROR(CheckMemory(op, "right", right, RightSize(t)));
  RETURN_IF_ERROR(
      CheckMatrix(op, "out", out, pairs.out.size, LeftCols(t) * t.right_cols));
  if (pairs.left.size != pairs.out.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": ", pairs.left.size, " pairs for ", pairs.out.size, " rows"));
  }
  RETURN_IF_ERROR(CheckMemory(op, "start", pairs.start.data, pairs.start.size));
  const int64_t used = pairs.start.size > 0 ? UsedPairs(pairs) : 0;
  if (used > pairs.left.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": ", used, " of ", pairs.left.size, " pairs"));
  }
  RETURN_IF_ERROR(CheckOffsets(op, pairs.start, t.right_rows, used));
  RETURN_IF_ERROR(CheckIndices(op, {pairs.left.data, used}, t.left_rows));
  RETURN_IF_ERROR(CheckIndices(op, {pairs.out.data, used}, out.rows));
  for (int64_t s = 0; s < t.right_rows; ++s) {
    for (int64_t q = pairs.start.data[s] + 1; q < pairs.start.data[s + 1];
         ++q) {
      if (pairs.left.data[q] > pairs.left.data[q - 1]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          op, ": block ", pairs.left.data[q], " at ", q, " does not rise"));
    }
  }
  return absl::OkStatus();
}

// Rows of the blocks of L of some pairs, each with its row of the result.
template <typename T, typename U>
struct RowChunk {
  int64_t count = 0;
  T* left[kChunkRows];
  U* out[kChunkRows];
};

// Calls f(chunk) for the rows of pairs [begin, end), in order.
template <typename T, typename U, typename F>
void ForChunks(const TtmTables& t, T* left, const TtmPairs& pairs,
               MatrixView<U> out, int64_t begin, int64_t end, const F& f) {
  RowChunk<T, U> chunk;
  for (int64_t q = begin; q < end; ++q) {
    U* to = out.data + pairs.out.data[q] * out.stride;
    T* block = left + pairs.left.data[q] * t.left_inner * t.rank;
    for (int64_t a = 0; a < t.left_outer; ++a) {
      T* row = block + a * t.left_rows * t.left_inner * t.rank;
      for (int64_t b = 0; b < t.left_inner; ++b) {
        chunk.left[chunk.count] = row + b * t.rank;
        chunk.out[chunk.count] = to;
        to += t.right_cols;
        if (++chunk.count < kChunkRows) continue;
        f(chunk);
        chunk.count = 0;
      }
    }
  }
  if (chunk.count > 0) f(chunk);
}

// Results of pairs [begin, end).
void Multiply(const TtmTables& t, const float* left, const float* right,
              const TtmPairs& pairs, Matrix out, int64_t begin, int64_t end) {
  const int64_t lanes = LanesPerTile(t.right_cols), stride = RightStride(t);
  const int32_t* start = pairs.start.data;
  Tile tile;
  int64_t s = std::upper_bound(start, start + t.right_rows + 1, begin) - start;
  for (--s; s < t.right_rows && start[s] < end; ++s) {
    const float* block = right + RightBlock(t, s);
    ForChunks(t, left, pairs, out, std::max<int64_t>(begin, start[s]),
              std::min<int64_t>(end, start[s + 1]), [&](const auto& chunk) {
                for (int64_t e = 0; e < t.right_cols; e += lanes) {
                  int64_t k = 0;
                  do {
                    PackTile(block + k * stride + e, stride,
                             std::min(kTileDepth, t.rank - k),
                             std::min(lanes, t.right_cols - e), &tile);
                    MultiplyRows(chunk.left, k, chunk.count, tile, k > 0,
                                 chunk.out, e);
                    k += kTileDepth;
                  } while (k < t.rank);
                }
              });
  }
}

// Adds to blocks [begin, end) of grad_left, for each in order of the blocks of
// R.
void AddLeft(const TtmTables& t, const float* right, const TtmPairs& pairs,
             ConstMatrix grad_out, float* grad_left, int64_t begin,
             int64_t end) {
  const int64_t lanes = LanesPerTile(t.rank), stride = RightStride(t);
  const int32_t* left = pairs.left.data;
  Tile tile;
  for (int64_t s = 0; s < t.right_rows; ++s) {
    const int32_t* last = left + pairs.start.data[s + 1];
    const int32_t* from =
        std::lower_bound(left + pairs.start.data[s], last, begin);
    const int32_t* to = std::lower_bound(from, last, end);
    const float* block = right + RightBlock(t, s);
    ForChunks(t, grad_left, pairs, grad_out, from - left, to - left,
              [&](const auto& chunk) {
                for (int64_t k = 0; k < t.rank; k += lanes) {
                  for (int64_t e = 0; e < t.right_cols; e += kTileDepth) {
                    PackTransposed(block + k * stride + e, stride,
                                   std::min(kTileDepth, t.right_cols - e),
                                   std::min(lanes, t.rank - k), &tile);
                    MultiplyRows(chunk.out, e, chunk.count, tile, true,
                                 chunk.left, k);
                  }
                }
              });
  }
}

// Writes blocks [begin, end) of grad_right.
void WriteRight(const TtmTables& t, const float* left, const TtmPairs& pairs,
                ConstMatrix grad_out, float* grad_right, int64_t begin,
                int64_t end) {
  const int64_t lanes = LanesPerTile(t.right_cols), stride = RightStride(t);
  Tile tile;
  for (int64_t s = begin; s < end; ++s) {
    float* block = grad_right + RightBlock(t, s);
    bool written = false;
    ForChunks(t, left, pairs, grad_out, pairs.start.data[s],
              pairs.start.data[s + 1], [&](const auto& chunk) {
                for (int64_t e = 0; e < t.right_cols; e += lanes) {
                  PackRows(chunk.out, e, chunk.count,
                           std::min(lanes, t.right_cols - e), &tile);
                  MultiplyColumns(chunk.left, t.rank, tile, written, block + e,
                                  stride);
                }
                written = true;
              });
    if (written) continue;
    for (int64_t k = 0; k < t.rank; ++k) {
      std::memset(block + k * stride, 0, t.right_cols * sizeof(float));
    }
  }
}

}  // namespace

absl::Status CpuBackend::TtmLookup(const TtmTables& t, const float* left,
                                   const float* right, const TtmPairs& pairs,
                                   Matrix out) {
  RETURN_IF_ERROR(CheckLookup("TtmLookup", t, left, right, pairs, out));
  if (out.cols == 0) return absl::OkStatus();
  ParallelRanges(threads_, UsedPairs(pairs), PairCost(t),
                 [&](int64_t begin, int64_t end) {
                   Multiply(t, left, right, pairs, out, begin, end);
                 });
  return absl::OkStatus();
}

absl::Status CpuBackend::TtmLookupBackward(
    const TtmTables& t, const float* left, const float* right,
    const TtmPairs& pairs, ConstMatrix grad_out, float* grad_left,
    float* grad_right) {
  constexpr char kOp[] = "TtmLookupBackward";
  RETURN_IF_ERROR(CheckLookup(kOp, t, left, right, pairs, grad_out));
  RETURN_IF_ERROR(CheckMemory(kOp, "grad_left", grad_left, LeftSize(t)));
  RETURN_IF_ERROR(CheckMemory(kOp, "grad_right", grad_right, RightSize(t)));
  ParallelElements(threads_, LeftSize(t), 1, [&](int64_t begin, int64_t end) {
    std::memset(grad_left + begin, 0, (end - begin) * sizeof(float));
  });
  const int64_t count = UsedPairs(pairs);
  if (LeftSize(t) > 0 && t.right_cols > 0) {
    ParallelRanges(threads_, t.left_rows,
                   PairCost(t) * (1 + count / t.left_rows),
                   [&](int64_t begin, int64_t end) {
                     AddLeft(t, right, pairs, grad_out, grad_left, begin, end);
                   });
  }
  if (RightSize(t) == 0) return absl::OkStatus();
  const int32_t* start = pairs.start.data;
  const int32_t* last = start + t.right_rows;
  if (count == 0 || LeftCols(t) == 0) {
    std::memset(grad_right, 0, RightSize(t) * sizeof(float));
    return absl::OkStatus();
  }
  // Ranges of pairs, each with the blocks that begin there, share the work more
  // evenly than ranges of blocks; blocks after the last pair are the last's.
  ParallelRanges(threads_, count, PairCost(t), [&](int64_t begin, int64_t end) {
    const int32_t* from = std::lower_bound(start, last, begin);
    const int32_t* to = end == count ? last : std::lower_bound(from, last, end);
    WriteRight(t, left, pairs, grad_out, grad_right, from - start, to - start);
  });
  return absl::OkStatus();
}

}  // namespace comera::kernels
