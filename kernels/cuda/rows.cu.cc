// Formula: to = from; out[j, :] = table[rows[j], :]; table[rows[j], :] = in[j,
// :]; and out[i, :] = sum of table[rows[q], :] over offsets[i] <= q < offsets[i
// + 1], in order of q.
// Shapes: table (any, cols), rows (n), in (n, cols), offsets (out.rows + 1),
// out (., cols).
// Threads: one takes four neighbouring columns of one row of out or in.
#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/map.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/vector_access.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

struct CopyOp {
  static constexpr bool kUsesColumn = false;
  __device__ void Begin() {}
  __device__ float operator()(float x, int64_t) const { return x; }
};

// out[j, :] = table[rows[j], :], four columns to a thread.
template <bool kAligned>
__global__ void __launch_bounds__(256)
    GatherKernel(ConstMatrix table, const int32_t* rows, Matrix out,
                 int64_t runs) {
  WaitForEarlierKernels();
  const int64_t total = out.rows * runs;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = Divide(at, runs), column = 4 * (at - row * runs);
    float x[4];
    LoadRun<kAligned>(table.data + rows[row] * table.stride + column,
                      out.cols - column, x);
    StoreRun<kAligned>(x, out.cols - column,
                       out.data + row * out.stride + column);
  }
}

// table[rows[j], :] = in[j, :], likewise.
template <bool kAligned>
__global__ void __launch_bounds__(256)
    PutKernel(ConstMatrix in, const int32_t* rows, Matrix table, int64_t runs) {
  WaitForEarlierKernels();
  const int64_t total = in.rows * runs;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = Divide(at, runs), column = 4 * (at - row * runs);
    float x[4];
    LoadRun<kAligned>(in.data + row * in.stride + column, in.cols - column, x);
    StoreRun<kAligned>(x, in.cols - column,
                       table.data + rows[row] * table.stride + column);
  }
}

// out[i, :] = sum of table[rows[q], :] in order of q, likewise.
template <bool kAligned>
__global__ void __launch_bounds__(256)
    SumRowsKernel(ConstMatrix table, const int32_t* rows,
                  const int32_t* offsets, Matrix out, int64_t runs) {
  WaitForEarlierKernels();
  const int64_t total = out.rows * runs;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       at < total; at += step) {
    const int64_t row = Divide(at, runs), column = 4 * (at - row * runs);
    const int64_t count = out.cols - column;
    const int32_t last = offsets[row + 1];
    float sum[4] = {};
#pragma unroll 4
    for (int32_t q = offsets[row]; q < last; ++q) {
      float x[4];
      LoadRun<kAligned>(table.data + rows[q] * table.stride + column, count, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += x[i];
    }
    StoreRun<kAligned>(sum, count, out.data + row * out.stride + column);
  }
}

absl::Status CheckCount(const char* op, const char* name, ConstIndices list,
                        int64_t count) {
  if (list.size == count) return CheckMemory(op, name, list.data, count);
  return absl::InvalidArgumentError(absl::StrCat(
      op, ": ", name, " has size ", list.size, ", expected ", count));
}

}  // namespace

absl::Status CudaBackend::CopyRows(ConstMatrix from, Matrix to) {
  RETURN_IF_ERROR(CheckMatrix("CopyRows", "from", from));
  RETURN_IF_ERROR(CheckMatrix("CopyRows", "to", to, from.rows, from.cols));
  if (together_depth_ > 0) {
    together_.AddCopyRows(from, to);
    return absl::OkStatus();
  }
  return Map<1>("CopyRows", stream_, {{from}}, to, CopyOp());
}

absl::Status CudaBackend::GatherRows(ConstMatrix table, ConstIndices rows,
                                     Matrix out) {
  constexpr char kOp[] = "GatherRows";
  RETURN_IF_ERROR(CheckMatrix(kOp, "table", table));
  RETURN_IF_ERROR(CheckMatrix(kOp, "out", out, rows.size, table.cols));
  RETURN_IF_ERROR(CheckMemory(kOp, "rows", rows.data, rows.size));
  const int64_t runs = (out.cols + 3) / 4;
  return Launch(
      kOp, Shape(Blocks(out.rows * runs, 256, 16 * Multiprocessors()), 256),
      RowsAligned(table) && RowsAligned(out) ? GatherKernel<true>
                                             : GatherKernel<false>,
      table, rows.data, out, runs);
}

absl::Status CudaBackend::PutRows(ConstMatrix in, ConstIndices rows,
                                  Matrix table) {
  constexpr char kOp[] = "PutRows";
  RETURN_IF_ERROR(CheckMatrix(kOp, "table", table));
  RETURN_IF_ERROR(CheckMatrix(kOp, "in", in, rows.size, table.cols));
  RETURN_IF_ERROR(CheckMemory(kOp, "rows", rows.data, rows.size));
  const int64_t runs = (in.cols + 3) / 4;
  return Launch(kOp,
                Shape(Blocks(in.rows * runs, 256, 16 * Multiprocessors()), 256),
                RowsAligned(in) && RowsAligned(table) ? PutKernel<true>
                                                      : PutKernel<false>,
                in, rows.data, table, runs);
}

absl::Status CudaBackend::SumRows(ConstMatrix table, ConstIndices rows,
                                  ConstIndices offsets, Matrix out) {
  constexpr char kOp[] = "SumRows";
  RETURN_IF_ERROR(CheckMatrix(kOp, "table", table));
  RETURN_IF_ERROR(CheckMatrix(kOp, "out", out, out.rows, table.cols));
  RETURN_IF_ERROR(CheckMemory(kOp, "rows", rows.data, rows.size));
  RETURN_IF_ERROR(CheckCount(kOp, "offsets", offsets, out.rows + 1));
  const int64_t runs = (out.cols + 3) / 4;
  return Launch(
      kOp, Shape(Blocks(out.rows * runs, 256, 32 * Multiprocessors()), 256),
      RowsAligned(table) && RowsAligned(out) ? SumRowsKernel<true>
                                             : SumRowsKernel<false>,
      table, rows.data, offsets.data, out, runs);
}

}  // namespace comera::kernels
