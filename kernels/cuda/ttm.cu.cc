// Products of pairs of blocks, and their backward. A pair costs few
// multiply-adds, so these are plain products whose operands come from the
// caches; sums of many pairs have one owner and one order.
#include <cuda_runtime.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kThreads = 256;
// Rows of a block of L that a thread takes at once.
constexpr int kRows = 4;

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

// A block to a pair and a tile of its product; four rows of a column to a
// thread.
__global__ void __launch_bounds__(kThreads)
    LookupKernel(Layout t, const float* left, const float* right, Pairs pairs,
                 Matrix out) {
  const int32_t q = static_cast<int32_t>(blockIdx.x);
  if (q >= pairs.start[t.right_rows]) return;
  const int64_t tile = static_cast<int64_t>(blockIdx.y) * kThreads;
  const int64_t at = tile + threadIdx.x;
  const int64_t row_group = Divide(at, t.right_cols);
  const int64_t e = at - row_group * t.right_cols, first = row_group * kRows;
  if (first >= t.left_cols) return;
  const int64_t l = pairs.left[q];
  const float* const b =
      right + RightOf(pairs, t.right_rows, q) * t.right_distance + e;
  const float* rows[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    rows[i] = left + t.LeftRow(l, first + i < t.left_cols ? first + i : first);
  }
  float sum[kRows] = {};
  for (int64_t k = 0; k < t.rank; ++k) {
    const float x = b[k * t.right_stride];
#pragma unroll
    for (int i = 0; i < kRows; ++i) sum[i] += rows[i][k] * x;
  }
  float* const to =
      out.data + pairs.out[q] * out.stride + first * t.right_cols + e;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (first + i < t.left_cols) to[i * t.right_cols] = sum[i];
  }
}

// A block to a block of L and a tile of its gradient, an element to a thread:
// sum over its pairs of grad_out R^T. The pairs are found chunk by chunk of the
// blocks of R, a thread to each.
__global__ void __launch_bounds__(kThreads)
    GradLeftKernel(Layout t, const float* right, Pairs pairs,
                   ConstMatrix grad_out, float* grad_left) {
  __shared__ int32_t found[kThreads];  // the pair with block s of R, or -1
  const int32_t l = static_cast<int32_t>(blockIdx.x);
  const int64_t at = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const int64_t row = Divide(at, t.rank), k = at - row * t.rank;
  const bool element = row < t.left_cols;
  float sum = 0;
  for (int64_t chunk = 0; chunk < t.right_rows; chunk += kThreads) {
    const int64_t own = chunk + threadIdx.x;
    int32_t pair = -1;
    if (own < t.right_rows) {
      int32_t begin = pairs.start[own];
      const int32_t last = pairs.start[own + 1];
      int32_t end = last;
      while (begin < end) {  // the first that is not below l
        const int32_t middle = begin + (end - begin) / 2;
        if (pairs.left[middle] < l) {
          begin = middle + 1;
        } else {
          end = middle;
        }
      }
      if (begin < last && pairs.left[begin] == l) pair = begin;
    }
    __syncthreads();  // the chunk before is used
    found[threadIdx.x] = pair;
    __syncthreads();
    if (!element) continue;
    const int64_t count =
        t.right_rows - chunk < kThreads ? t.right_rows - chunk : kThreads;
    for (int64_t i = 0; i < count; ++i) {
      if (found[i] < 0) continue;
      const float* const g = grad_out.data +
                             pairs.out[found[i]] * grad_out.stride +
                             row * t.right_cols;
      const float* const b =
          right + (chunk + i) * t.right_distance + k * t.right_stride;
#pragma unroll 4
      for (int64_t e = 0; e < t.right_cols; ++e) sum += g[e] * b[e];
    }
  }
  if (element) grad_left[t.LeftRow(l, row) + k] = sum;
}

// A block to a block of R and a share of its pairs: sum of L^T grad_out, an
// element to a thread. parts (shares, size of R), in the layout of R.
__global__ void __launch_bounds__(kThreads)
    GradRightKernel(Layout t, const float* left, Pairs pairs,
                    ConstMatrix grad_out, int64_t right_size, float* parts) {
  const int64_t s = blockIdx.x;
  const int64_t at = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const int64_t k = Divide(at, t.right_cols), e = at - k * t.right_cols;
  if (k >= t.rank) return;
  const int64_t begin = pairs.start[s], count = pairs.start[s + 1] - begin;
  const int64_t first = begin + count * blockIdx.z / gridDim.z;
  const int64_t last = begin + count * (blockIdx.z + 1) / gridDim.z;
  float sum = 0;
  for (int64_t q = first; q < last; ++q) {
    const float* const g = grad_out.data + pairs.out[q] * grad_out.stride + e;
    const int64_t l = pairs.left[q];
    int64_t row = 0;
    while (row < t.left_cols) {  // the rows of one outer index lie together
      const float* const a = left + t.LeftRow(l, row) + k;
      const float* const grad_row = g + row * t.right_cols;
#pragma unroll 4
      for (int64_t i = 0; i < t.left_inner; ++i) {
        sum += a[i * t.rank] * grad_row[i * t.right_cols];
      }
      row += t.left_inner;
    }
  }
  parts[blockIdx.z * right_size + s * t.right_distance + k * t.right_stride +
        e] = sum;
}

// to = sum of parts, in their order.
__global__ void __launch_bounds__(kThreads)
    AddPartsKernel(const float* parts, int64_t count, int64_t size, float* to) {
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

// Tiles of `size` elements in grid.y.
absl::Status Tiles(const char* op, int64_t size, unsigned* tiles) {
  const int64_t count = (size + kThreads - 1) / kThreads;
  if (count > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": blocks of ", size, " elements are too large"));
  }
  *tiles = static_cast<unsigned>(count);
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaBackend::TtmLookup(const TtmTables& t, const float* left,
                                    const float* right, const TtmPairs& pairs,
                                    Matrix out) {
  constexpr char kOp[] = "TtmLookup";
  RETURN_IF_ERROR(CheckLookup(kOp, t, left, right, pairs, out));
  const Layout layout = MakeLayout(t);
  unsigned tiles = 0;
  RETURN_IF_ERROR(Tiles(
      kOp, (layout.left_cols + kRows - 1) / kRows * t.right_cols, &tiles));
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
  unsigned tiles = 0;
  if (LeftSize(t) > 0) {
    RETURN_IF_ERROR(Tiles(kOp, layout.left_cols * t.rank, &tiles));
    RETURN_IF_ERROR(
        Launch(kOp, Shape(dim3(Blocks(t.left_rows, 1), tiles), kThreads),
               GradLeftKernel, layout, right, lists, grad_out, grad_left));
  }
  const int64_t size = RightSize(t);
  if (size == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Tiles(kOp, t.rank * t.right_cols, &tiles));
  // Enough blocks for the device, of at least four pairs on average.
  const int64_t room = kScratchBytes / (size * int64_t{sizeof(float)});
  const int64_t shares = std::max<int64_t>(
      1, std::min({1056 / (t.right_rows * tiles),
                   pairs.out.size / (4 * t.right_rows), room}));
  const dim3 grid(Blocks(t.right_rows, 1), tiles,
                  static_cast<unsigned>(shares));
  float* const parts = shares == 1 ? grad_right : Scratch<float>();
  RETURN_IF_ERROR(Launch(kOp, Shape(grid, kThreads), GradRightKernel, layout,
                         left, lists, grad_out, size, parts));
  if (shares == 1) return absl::OkStatus();
  return Launch(kOp, Shape(Blocks(size, kThreads), kThreads), AddPartsKernel,
                parts, shares, size, grad_right);
}

}  // namespace comera::kernels
