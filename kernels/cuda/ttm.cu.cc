// Formula: out[out_q, :] = L[left_q] R[s_q] for pairs q of blocks; backward,
// grad_L[l] = sum of grad_out R^T and grad_R[s] = sum of L^T grad_out over the
// pairs of a block.
// Shapes: L (left_outer, left_rows, left_inner, rank), R (rank, right_rows,
// right_cols) or (right_rows, rank, right_cols), out (pairs, left_outer *
// left_inner * right_cols).
// Threads: a block takes a tile of 16 by 32 of one product, four elements to a
// thread, in float32; operands come step by step through shared memory. Sums of
// many pairs are cut into shares where there are few blocks, in one order.
#include <cuda_runtime.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 128;
// Blocks that fill a device, of kThreads each.
constexpr int64_t kManyBlocks = 16 * kSumMultiprocessors;

// Where the parts of the tables lie.
struct Layout {
  int64_t left_cols;  // rows of a block of L, (left_outer, left_inner)
  int64_t left_inner, left_rows, rank;
  int64_t right_rows, right_cols;
  int64_t right_stride;    // between rows of a block of R
  int64_t right_distance;  // between blocks of R

  // Row `row` of block l of L.
  __device__ __forceinline__ int64_t LeftRow(int64_t l, int64_t row) const {
    const int64_t outer = Divide(row, left_inner);
    return ((outer * left_rows + l) * left_inner + row - outer * left_inner) *
           rank;
  }
};

Layout MakeLayout(const TtmTables& t) {
  return {t.left_outer * t.left_inner,
          t.left_inner,
          t.left_rows,
          t.rank,
          t.right_rows,
          t.right_cols,
          t.right_blocks ? t.right_cols : t.right_rows * t.right_cols,
          t.right_blocks ? t.rank * t.right_cols : t.right_cols};
}

struct Pairs {
  const int32_t *left, *out, *start;
};

// The block of R whose pairs q is among: the last that starts at or before it.
__device__ __forceinline__ int64_t RightOf(const Pairs& pairs, int64_t blocks,
                                           int32_t q) {
  int64_t s = 0, end = blocks;
  while (end - s > 1) {
    const int64_t middle = (s + end) / 2;
    if (pairs.start[middle] <= q) {
      s = middle;
    } else {
      end = middle;
    }
  }
  return s;
}

// One tile of a sum of products, four elements to a thread: sums[i][j] belongs
// to row Row(i) and column Col(j) of the tile.
constexpr int kTileRows = 16, kTileCols = 32, kStep = 16;
struct Shared {
  float left[kStep][kTileRows + 1], right[kStep][kTileCols + 1];
};
__device__ __forceinline__ int Row(int i) {
  return static_cast<int>(threadIdx.x) / 16 + 8 * i;
}
__device__ __forceinline__ int Col(int j) {
  return static_cast<int>(threadIdx.x) % 16 + 16 * j;
}

// Adds up the steps of `walk`, whose Left(row, k) and Right(col, k) are the
// operands of the step it is at (0 beyond their edges), and whose Next() goes
// to the next one, if there is one. What of an operand lies together in memory,
// its inner index (kLeftInner, kRightInner) or the other, neighbours read.
template <bool kLeftInner, bool kRightInner, typename Walk>
__device__ __forceinline__ void AddSteps(Walk& walk, Shared& shared,
                                         float (&sums)[2][2]) {
  constexpr int kLeftEach = kTileRows * kStep / kThreads;
  constexpr int kRightEach = kTileCols * kStep / kThreads;
  const int t = static_cast<int>(threadIdx.x);
  float left[kLeftEach], right[kRightEach];
  const auto left_row = [t](int i) {
    return kLeftInner ? t / kStep + i * (kThreads / kStep) : t % kTileRows;
  };
  const auto left_inner = [t](int i) {
    return kLeftInner ? t % kStep : t / kTileRows + i * (kThreads / kTileRows);
  };
  const auto right_col = [t](int i) {
    return kRightInner ? t / kStep + i * (kThreads / kStep) : t % kTileCols;
  };
  const auto right_inner = [t](int i) {
    return kRightInner ? t % kStep : t / kTileCols + i * (kThreads / kTileCols);
  };
  const auto fetch = [&] {
#pragma unroll
    for (int i = 0; i < kLeftEach; ++i) {
      left[i] = walk.Left(left_row(i), left_inner(i));
    }
#pragma unroll
    for (int i = 0; i < kRightEach; ++i) {
      right[i] = walk.Right(right_col(i), right_inner(i));
    }
  };
  // Operands of the next step are fetched while this one is multiplied.
  fetch();
  for (bool more = true; more;) {
    __syncthreads();  // the step before is used
#pragma unroll
    for (int i = 0; i < kLeftEach; ++i) {
      shared.left[left_inner(i)][left_row(i)] = left[i];
    }
#pragma unroll
    for (int i = 0; i < kRightEach; ++i) {
      shared.right[right_inner(i)][right_col(i)] = right[i];
    }
    __syncthreads();
    more = walk.Next();
    if (more) fetch();
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      const float x0 = shared.left[k][Row(0)], x1 = shared.left[k][Row(1)];
      const float y0 = shared.right[k][Col(0)], y1 = shared.right[k][Col(1)];
      sums[0][0] += x0 * y0;
      sums[0][1] += x0 * y1;
      sums[1][0] += x1 * y0;
      sums[1][1] += x1 * y1;
    }
  }
}

// The tile of a block: blockIdx.y of those of a matrix with `cols` columns.
struct TilePlace {
  int row, col;
};
__device__ __forceinline__ TilePlace PlaceOf(int64_t cols) {
  const int across = static_cast<int>((cols + kTileCols - 1) / kTileCols);
  const int tile = static_cast<int>(blockIdx.y);
  return {tile / across * kTileRows, tile % across * kTileCols};
}

// The product of one pair.
struct ProductWalk {
  const Layout& t;
  const float *left, *right;  // the table, and the block
  int64_t l;
  TilePlace place;
  int at = 0;  // where in the rank the step begins

  __device__ __forceinline__ float Left(int row, int k) const {
    row += place.row;
    k += at;
    return row < t.left_cols && k < t.rank ? left[t.LeftRow(l, row) + k] : 0.0f;
  }
  __device__ __forceinline__ float Right(int col, int k) const {
    col += place.col;
    k += at;
    return col < t.right_cols && k < t.rank ? right[k * t.right_stride + col]
                                            : 0.0f;
  }
  __device__ __forceinline__ bool Next() {
    at += kStep;
    return at < t.rank;
  }
};

// A block to a pair and a tile of its product.
__global__ void __launch_bounds__(kThreads)
    LookupKernel(Layout t, const float* left, const float* right, Pairs pairs,
                 Matrix out) {
  WaitForEarlierKernels();
  __shared__ Shared shared;
  const int32_t q = static_cast<int32_t>(blockIdx.x);
  if (q >= pairs.start[t.right_rows]) return;
  const TilePlace place = PlaceOf(t.right_cols);
  ProductWalk walk = {
      t, left, right + RightOf(pairs, t.right_rows, q) * t.right_distance,
      pairs.left[q], place};
  float sums[2][2] = {};
  AddSteps<true, false>(walk, shared, sums);
  float* const to = out.data + pairs.out[q] * out.stride;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t row = place.row + Row(i), col = place.col + Col(j);
      if (row < t.left_cols && col < t.right_cols) {
        to[row * t.right_cols + col] = sums[i][j];
      }
    }
  }
}

// grad_out R^T over pairs of one block of L: found[i] is the pair with block
// blocks[i] of R.
struct GradLeftWalk {
  const Layout& t;
  const float* right;
  ConstMatrix grad_out;
  const int32_t *found_out, *blocks;
  int count;
  TilePlace place;
  int pair = 0, at = 0;
  const float *g = nullptr, *r = nullptr;  // operands of the pair

  __device__ __forceinline__ void Begin() {
    g = grad_out.data + found_out[pair] * grad_out.stride;
    r = right + blocks[pair] * t.right_distance;
  }
  __device__ __forceinline__ float Left(int row, int k) const {
    row += place.row;
    k += at;
    return row < t.left_cols && k < t.right_cols ? g[row * t.right_cols + k]
                                                 : 0.0f;
  }
  __device__ __forceinline__ float Right(int col, int k) const {
    col += place.col;
    k += at;
    return col < t.rank && k < t.right_cols ? r[col * t.right_stride + k]
                                            : 0.0f;
  }
  __device__ __forceinline__ bool Next() {
    at += kStep;
    if (at < t.right_cols) return true;
    at = 0;
    if (++pair >= count) return false;
    Begin();
    return true;
  }
};

// A block to a block of L, a share of the blocks of R and a tile of the
// gradient. The pairs are found chunk by chunk of the blocks of R, a thread to
// each. parts (shares, size of L), in the layout of L.
__global__ void __launch_bounds__(kThreads)
    GradLeftKernel(Layout t, const float* right, Pairs pairs,
                   ConstMatrix grad_out, int64_t left_size, float* parts) {
  WaitForEarlierKernels();
  __shared__ Shared shared;
  __shared__ int32_t outs[kThreads], blocks[kThreads];
  __shared__ int counts[kThreads / 32];
  const int32_t l = static_cast<int32_t>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = t.right_rows * blockIdx.z / gridDim.z;
  const int64_t last = t.right_rows * (blockIdx.z + 1) / gridDim.z;
  const TilePlace place = PlaceOf(t.rank);
  float sums[2][2] = {};
  for (int64_t chunk = first; chunk < last; chunk += kThreads) {
    // find the pair of each block of R
    const int64_t own = chunk + threadIdx.x;
    int32_t pair = -1;
    if (own < last) {
      int32_t begin = pairs.start[own];
      const int32_t behind = pairs.start[own + 1];
      int32_t end = behind;
      while (begin < end) {  // the first that is not below l
        const int32_t middle = begin + (end - begin) / 2;
        if (pairs.left[middle] < l) {
          begin = middle + 1;
        } else {
          end = middle;
        }
      }
      if (begin < behind && pairs.left[begin] == l) pair = begin;
    }
    // list the pairs in their order, without gaps
    const unsigned mask = __ballot_sync(0xffffffffu, pair >= 0);
    __syncthreads();  // the chunk before is used
    if (lane == 0) counts[warp] = __popc(mask);
    __syncthreads();
    int at = __popc(mask & ((1u << lane) - 1)), count = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) at += counts[w];
      count += counts[w];
    }
    if (pair >= 0) {
      outs[at] = pairs.out[pair];
      blocks[at] = static_cast<int32_t>(own);
    }
    __syncthreads();
    if (count == 0) continue;
    // add their products
    GradLeftWalk walk = {t, right, grad_out, outs, blocks, count, place};
    walk.Begin();
    AddSteps<true, true>(walk, shared, sums);
  }
  float* const to = parts + blockIdx.z * left_size;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t row = place.row + Row(i);
    if (row >= t.left_cols) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t k = place.col + Col(j);
      if (k < t.rank) to[t.LeftRow(l, row) + k] = sums[i][j];
    }
  }
}

// L^T grad_out over the pairs [pair, last) of one block of R.
struct GradRightWalk {
  const Layout& t;
  const float* left;
  Pairs pairs;
  ConstMatrix grad_out;
  int64_t pair, last;
  TilePlace place;
  int at = 0;
  const float* g = nullptr;
  int64_t l = 0;

  __device__ __forceinline__ void Begin() {
    g = grad_out.data + pairs.out[pair] * grad_out.stride;
    l = pairs.left[pair];
  }
  __device__ __forceinline__ float Left(int row, int k) const {
    row += place.row;  // the rank, in R's block
    k += at;
    return row < t.rank && k < t.left_cols ? left[t.LeftRow(l, k) + row] : 0.0f;
  }
  __device__ __forceinline__ float Right(int col, int k) const {
    col += place.col;
    k += at;
    return col < t.right_cols && k < t.left_cols ? g[k * t.right_cols + col]
                                                 : 0.0f;
  }
  __device__ __forceinline__ bool Next() {
    at += kStep;
    if (at < t.left_cols) return true;
    at = 0;
    if (++pair >= last) return false;
    Begin();
    return true;
  }
};

// A block to a block of R, a share of its pairs and a tile of the gradient.
// parts (shares, size of R), in the layout of R.
__global__ void __launch_bounds__(kThreads)
    GradRightKernel(Layout t, const float* left, Pairs pairs,
                    ConstMatrix grad_out, int64_t right_size, float* parts) {
  WaitForEarlierKernels();
  __shared__ Shared shared;
  const int64_t s = blockIdx.x;
  const int64_t begin = pairs.start[s], count = pairs.start[s + 1] - begin;
  const int64_t first = begin + count * blockIdx.z / gridDim.z;
  const int64_t last = begin + count * (blockIdx.z + 1) / gridDim.z;
  const TilePlace place = PlaceOf(t.right_cols);
  float sums[2][2] = {};
  if (first < last) {
    GradRightWalk walk = {t, left, pairs, grad_out, first, last, place};
    walk.Begin();
    AddSteps<false, false>(walk, shared, sums);
  }
  float* const to = parts + blockIdx.z * right_size + s * t.right_distance;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t k = place.row + Row(i);
    if (k >= t.rank) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t e = place.col + Col(j);
      if (e < t.right_cols) to[k * t.right_stride + e] = sums[i][j];
    }
  }
}

// to = sum of parts, in their order.
__global__ void __launch_bounds__(kThreads)
    AddPartsKernel(const float* parts, int64_t count, int64_t size, float* to) {
  WaitForEarlierKernels();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size) return;
  float sum = 0;
  for (int64_t part = 0; part < count; ++part) sum += parts[part * size + i];
  to[i] = sum;
}

int64_t LeftSize(const TtmTables& t) {
  return t.left_outer * t.left_rows * t.left_inner * t.rank;
}
int64_t RightSize(const TtmTables& t) {
  return t.right_rows * t.right_cols * t.rank;
}

absl::Status CheckLookup(const char* op, const TtmTables& t, const float* left,
                         const float* right, const TtmPairs& pairs,
                         ConstMatrix out) {
  RETURN_IF_ERROR(CheckTtm(op, t));
  RETURN_IF_ERROR(CheckMemory(op, "left", left, LeftSize(t)));
  RETURN_IF_ERROR(CheckMemory(op, "right", right, RightSize(t)));
  RETURN_IF_ERROR(CheckMatrix(op, "out", out, pairs.out.size,
                              t.left_outer * t.left_inner * t.right_cols));
  RETURN_IF_ERROR(
      CheckMemory(op, "pairs.left", pairs.left.data, pairs.left.size));
  RETURN_IF_ERROR(CheckMemory(op, "pairs.out", pairs.out.data, pairs.out.size));
  if (pairs.left.size != pairs.out.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": ", pairs.left.size, " pairs for ", pairs.out.size, " rows"));
  }
  if (pairs.start.size != t.right_rows + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": ", pairs.start.size, " starts for ", t.right_rows, " blocks"));
  }
  return CheckMemory(op, "pairs.start", pairs.start.data, pairs.start.size);
}

// Tiles of a matrix, in grid.y.
absl::Status Tiles(const char* op, int64_t rows, int64_t cols,
                   unsigned* tiles) {
  const int64_t count =
      (rows + kTileRows - 1) / kTileRows * ((cols + kTileCols - 1) / kTileCols);
  if (count > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": blocks of ", rows, "x", cols, " are too large"));
  }
  *tiles = static_cast<unsigned>(count);
  return absl::OkStatus();
}

// Into how many shares the sums of `blocks` blocks are cut: enough for the
// device, at most `most`, and what the scratch memory holds.
int64_t Shares(int64_t blocks, int64_t most, int64_t size) {
  const int64_t room = kMostScratchBytes / (size * int64_t{sizeof(float)});
  return std::max<int64_t>(
      1, std::min({kManyBlocks / std::max<int64_t>(blocks, 1), most, room,
                   int64_t{65535}}));
}

}  // namespace

absl::Status CudaBackend::TtmLookup(const TtmTables& t, const float* left,
                                    const float* right, const TtmPairs& pairs,
                                    Matrix out) {
  constexpr char kOp[] = "TtmLookup";
  RETURN_IF_ERROR(CheckLookup(kOp, t, left, right, pairs, out));
  const Layout layout = MakeLayout(t);
  unsigned tiles = 0;
  RETURN_IF_ERROR(Tiles(kOp, layout.left_cols, t.right_cols, &tiles));
  const dim3 grid(Blocks(out.rows, 1), tiles);
  return Launch(kOp, Shape(grid, kThreads), LookupKernel, layout, left, right,
                Pairs{pairs.left.data, pairs.out.data, pairs.start.data}, out);
}

absl::Status CudaBackend::TtmLookupBackward(
    const TtmTables& t, const float* left, const float* right,
    const TtmPairs& pairs, ConstMatrix grad_out, float* grad_left,
    float* grad_right) {
  constexpr char kOp[] = "TtmLookupBackward";
  RETURN_IF_ERROR(CheckLookup(kOp, t, left, right, pairs, grad_out));
  RETURN_IF_ERROR(CheckMemory(kOp, "grad_left", grad_left, LeftSize(t)));
  RETURN_IF_ERROR(CheckMemory(kOp, "grad_right", grad_right, RightSize(t)));
  const Layout layout = MakeLayout(t);
  const Pairs lists = {pairs.left.data, pairs.out.data, pairs.start.data};
  const auto add_parts = [&](const float* parts, int64_t shares, int64_t size,
                             float* to) {
    return Launch(kOp, Shape(Blocks(size, kThreads), kThreads), AddPartsKernel,
                  parts, shares, size, to);
  };
  unsigned tiles = 0;
  if (const int64_t size = LeftSize(t); size > 0) {
    RETURN_IF_ERROR(Tiles(kOp, layout.left_cols, t.rank, &tiles));
    const int64_t shares = Shares(t.left_rows * tiles, t.right_rows, size);
    float* parts = grad_left;
    if (shares > 1) {
      ASSIGN_OR_RETURN(parts, Scratch<float>(shares * size));
    }
    RETURN_IF_ERROR(Launch(
        kOp,
        Shape(
            dim3(Blocks(t.left_rows, 1), tiles, static_cast<unsigned>(shares)),
            kThreads),
        GradLeftKernel, layout, right, lists, grad_out, size, parts));
    if (shares > 1) {
      RETURN_IF_ERROR(add_parts(parts, shares, size, grad_left));
    }
  }
  const int64_t size = RightSize(t);
  if (size == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Tiles(kOp, t.rank, t.right_cols, &tiles));
  // A share has at least two pairs on average.
  const int64_t shares =
      Shares(t.right_rows * tiles, pairs.out.size / (2 * t.right_rows), size);
  float* parts = grad_right;
  if (shares > 1) {
    ASSIGN_OR_RETURN(parts, Scratch<float>(shares * size));
  }
  RETURN_IF_ERROR(Launch(
      kOp,
      Shape(dim3(Blocks(t.right_rows, 1), tiles, static_cast<unsigned>(shares)),
            kThreads),
      GradRightKernel, layout, left, lists, grad_out, size, parts));
  return shares > 1 ? add_parts(parts, shares, size, grad_right)
                    : absl::OkStatus();
}

}  // namespace comera::kernels
