// Formula: grad_a += x^T grad_t and grad_x += grad_t a^T, where x may be given
// as normalised * gamma + beta.
// Shapes: x, grad_x (rows, cols), grad_t (rows, rank), a, grad_a (cols, rank).
// Threads: a block takes 32 columns of grad_a and a range of rows
// (device/stream_sums.h), or 32 rows of grad_x (device/stream_add_product.h).
//
// Bytes to and from device memory, of a matrix of the stream (rows x cols
// floats): x is read, grad_x read and written, the least there is. Neither
// gradient needs what the other reads, so each has its kernel.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/stream_add_product.h"
#include "kernels/cuda/device/stream_sums.h"
#include "kernels/cuda/device_grid.h"
#include "kernels/cuda/precision_switch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/stream_split.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Blocks that share the columns of 32 rows, so that few rows keep the device
// busy: at most one for each turn of a block's warps.
unsigned ColumnBlocks(unsigned row_blocks, int cols) {
  const int turns = (StreamGroups(cols) + kStreamWarps - 1) / kStreamWarps;
  const int most = Multiprocessors() / static_cast<int>(row_blocks);
  return static_cast<unsigned>(std::clamp(most, 1, turns));
}

}  // namespace

absl::Status CudaBackend::ProjectBackward(ConstMatrix x, ConstVector gamma,
                                          ConstVector beta, ConstMatrix grad_t,
                                          ConstMatrix a, Matrix grad_a,
                                          Matrix grad_x, void* workspace) {
  constexpr char kOp[] = "ProjectBackward";
  const int64_t rows = x.rows, cols = x.cols, rank = a.cols;
  const bool scaled = gamma.data != nullptr;
  RETURN_IF_ERROR(
      CheckProjectBackward(x, gamma, beta, grad_t, a, grad_a, grad_x));
  if (rows == 0 || cols == 0 || rank == 0) return absl::OkStatus();
  const int64_t shared = SharedBytesPerBlock(options_.device);
  const StreamSplit split(rows, rank, cols, shared);
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, split.bytes()));
  RETURN_IF_ERROR(split.CheckGroups(kOp));

  StreamSums s = {};
  s.t = ViewOf(grad_t);
  s.x = ViewOf(x);
  s.gamma = gamma.data;
  s.beta = beta.data;
  s.sums = static_cast<float*>(workspace) + split.product_sums();
  s.range_rows = static_cast<int>(split.range_rows());
  s.to = grad_a.data;
  s.to_stride = grad_a.stride;
  s.transposed = true;
  s.arrived = arrived_;
  const LaunchShape sums_shape =
      Shape({static_cast<unsigned>(split.column_groups()),
             static_cast<unsigned>(split.ranges()),
             static_cast<unsigned>(split.rank_groups())},
            kStreamThreads, kStreamSumsBytes);
  StreamAddProduct p = {};
  p.t = ViewOf(grad_t);
  p.w = ViewOf(a);
  p.y = {grad_x.data, grad_x.stride};
  const bool pairs = reinterpret_cast<uintptr_t>(grad_x.data) % 8 == 0 &&
                     cols % 2 == 0 && (rows == 1 || grad_x.stride % 2 == 0);
  const int64_t add_bytes = RankVectorBytes(kAddRowTiles, (rank + 15) / 16);
  const unsigned row_blocks = Blocks(rows, kAddRows);
  const LaunchShape add_shape =
      Shape({row_blocks, ColumnBlocks(row_blocks, static_cast<int>(cols))},
            kStreamThreads, add_bytes);
  return SwitchPrecision(
      options_.precision, [&](auto precision) -> absl::Status {
        RETURN_IF_ERROR(SwitchTiles(split.rank_tiles(), [&](auto tiles) {
          constexpr StreamElement kScaled = StreamElement::kScaled;
          constexpr StreamElement kAsIs = StreamElement::kAsIs;
          return Launch(
              "ProjectBackward of a", sums_shape,
              scaled ? StreamSumsKernel<precision.value, tiles.value, kScaled>
                     : StreamSumsKernel<precision.value, tiles.value, kAsIs>,
              s);
        }));
        if (add_bytes > shared) {  // a rank of thousands
          return Gemm(false, true, 1, grad_t, a, 1, grad_x);
        }
        return Launch("ProjectBackward of x", add_shape,
                      pairs ? StreamAddProductKernel<precision.value, true>
                            : StreamAddProductKernel<precision.value, false>,
                      p);
      });
}

}  // namespace comera::kernels
