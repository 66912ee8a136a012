// Formula: y = LayerNorm(dropout(t b) + residual) * gamma + beta, and its
// gradients.
// Shapes: t (rows, rank + 1), b (rank + 1, cols), the others (rows, cols) or
// vectors (cols).
// Threads: a block takes 16 whole rows (device/stream_rows.h), or, for grad_b,
// 32 columns and a range of rows (device/stream_sums.h).
//
// Bytes to and from device memory, of a matrix of the stream (rows x cols
// floats): forward reads one and writes two, the least there is. Backward reads
// two, writes one, and reads that again for grad_b, whose sums over rows would
// else be a part per block of rows, which is more.
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/expand_layer_norm_backward.h"
#include "kernels/cuda/device/expand_layer_norm_forward.h"
#include "kernels/cuda/device/stream_sums.h"
#include "kernels/cuda/precision_switch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/stream_split.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

DropoutKey FromRow(DropoutKey key, int64_t row) {
  if (key.row_ids == nullptr) {
    key.first_row += row;
  } else {
    key.row_ids += row;
  }
  return key;
}

StreamMatrix StreamOf(Matrix m) { return {m.data, m.stride}; }

}  // namespace

int64_t CudaBackend::RankSpaceStreamWorkspaceBytes(int64_t rows, int64_t rank,
                                                   int64_t cols) {
  const int64_t shared = SharedBytesPerBlock(options_.device);
  return std::max(StreamSplit(rows, rank, cols, shared).bytes(),
                  StreamSplit(rows, rank + 1, cols, shared).bytes());
}

absl::Status CudaBackend::ExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                                          ConstMatrix b, ConstMatrix residual,
                                          ConstVector gamma, ConstVector beta,
                                          float epsilon, Matrix normalised,
                                          Vector inverse_deviation, Matrix y,
                                          void* workspace) {
  constexpr char kOp[] = "ExpandLayerNorm";
  const int64_t rows = t.rows, cols = b.cols;
  RETURN_IF_ERROR(CheckExpandLayerNorm(key, t, b, residual, gamma, beta,
                                       normalised, inverse_deviation, y));
  if (rows == 0 || cols == 0) return absl::OkStatus();
  const int64_t shared = SharedBytesPerBlock(options_.device);
  const StreamSplit split(rows, t.cols, cols, shared);
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, split.bytes()));

  const int64_t bytes =
      ExpandForwardBytes((t.cols + 15) / 16, static_cast<int>(cols));
  if (bytes > shared) {
    RETURN_IF_ERROR(Gemm(false, false, 1, t, b, 0, normalised));
    return ResidualLayerNorm(key, normalised, residual, gamma, beta, epsilon,
                             normalised, inverse_deviation, y);
  }
  ExpandForward p = {};
  p.dropout = MakeDeviceDropout(key);
  p.t = ViewOf(t);
  p.b = ViewOf(b);
  p.residual = residual.data;
  p.residual_stride = residual.stride;
  p.gamma = gamma.data;
  p.beta = beta.data;
  p.epsilon = epsilon;
  p.normalised = StreamOf(normalised);
  p.inverse_deviation = inverse_deviation.data;
  p.y = StreamOf(y);
  const bool aligned = cols % 4 == 0 && RowsAligned(residual) &&
                       RowsAligned(normalised) && RowsAligned(y) &&
                       Aligned(gamma) && Aligned(beta);
  const LaunchShape shape =
      Shape(Blocks(rows, kStreamRows), kStreamThreads, bytes);
  return SwitchPrecision(options_.precision, [&](auto precision) {
    return Launch(kOp, shape,
                  aligned ? ExpandForwardKernel<precision.value, true>
                          : ExpandForwardKernel<precision.value, false>,
                  p);
  });
}

absl::Status CudaBackend::ExpandLayerNormBackward(
    const DropoutKey& key, ConstMatrix t, ConstMatrix b, ConstMatrix grad_y,
    ConstMatrix normalised, ConstVector inverse_deviation, ConstVector gamma,
    Matrix grad_residual, Matrix grad_t, Matrix grad_b, Vector grad_gamma,
    Vector grad_beta, void* workspace) {
  constexpr char kOp[] = "ExpandLayerNormBackward";
  const int64_t rows = t.rows, cols = b.cols;
  RETURN_IF_ERROR(CheckExpandLayerNormBackward(
      key, t, b, grad_y, normalised, inverse_deviation, gamma, grad_residual,
      grad_t, grad_b, grad_gamma, grad_beta));
  if (rows == 0 || cols == 0) return absl::OkStatus();
  const StreamSplit split(rows, t.cols, cols,
                          SharedBytesPerBlock(options_.device));
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, split.bytes()));
  float* floats = static_cast<float*>(workspace);

  if (split.wide()) {
    for (int64_t i = 0; i < rows; i += StreamSplit::kWideRows) {
      const int64_t n = std::min(StreamSplit::kWideRows, rows - i);
      const Matrix grad_x(floats, n, cols);
      RETURN_IF_ERROR(ResidualLayerNormBackward(
          FromRow(key, i), Rows(grad_y, i, n), Rows(normalised, i, n),
          {inverse_deviation.data + i, n}, gamma, grad_x,
          Rows(grad_residual, i, n), grad_gamma, grad_beta));
      RETURN_IF_ERROR(Gemm(false, true, 1, grad_x, Rows(b, 0, b.rows - 1), 0,
                           Rows(grad_t, i, n)));
      RETURN_IF_ERROR(Gemm(true, false, 1, Rows(t, i, n), grad_x, 1, grad_b));
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(split.CheckGroups(kOp));
  ExpandBackward p = {};
  p.dropout = MakeDeviceDropout(key);
  p.b = ViewOf(Rows(b, 0, b.rows - 1));
  p.grad_y = grad_y.data;
  p.grad_y_stride = grad_y.stride;
  p.normalised = normalised.data;
  p.normalised_stride = normalised.stride;
  p.inverse_deviation = inverse_deviation.data;
  p.gamma = gamma.data;
  p.grad_residual = StreamOf(grad_residual);
  p.grad_t = StreamOf(grad_t);
  p.keep = reinterpret_cast<uint32_t*>(floats + split.keep_words());
  p.sums = floats + split.vector_sums();
  p.rows = static_cast<int>(rows);
  const bool aligned = cols % 4 == 0 && RowsAligned(grad_y) &&
                       RowsAligned(normalised) && RowsAligned(grad_residual) &&
                       Aligned(gamma);
  const LaunchShape rows_shape =
      Shape(static_cast<unsigned>(split.row_blocks()), kStreamThreads,
            ExpandBackwardBytes(static_cast<int>(cols)));

  StreamSums s = {};
  s.t = ViewOf(t);
  s.x = ViewOf(grad_residual);
  s.keep = p.keep;
  s.scale = p.dropout.scale;
  s.sums = floats + split.product_sums();
  s.range_rows = static_cast<int>(split.range_rows());
  s.to = grad_b.data;
  s.to_stride = grad_b.stride;
  s.arrived = arrived_;
  s.vector_parts = p.sums;
  s.vector_count = static_cast<int>(split.row_blocks());
  s.grad_gamma = grad_gamma.data;
  s.grad_beta = grad_beta.data;
  const LaunchShape sums_shape =
      Shape({static_cast<unsigned>(split.column_groups()),
             static_cast<unsigned>(split.ranges()),
             static_cast<unsigned>(split.rank_groups())},
            kStreamThreads, kStreamSumsBytes);
  return SwitchPrecision(
      options_.precision, [&](auto precision) -> absl::Status {
        RETURN_IF_ERROR(
            Launch(kOp, rows_shape,
                   aligned ? ExpandBackwardKernel<precision.value, true>
                           : ExpandBackwardKernel<precision.value, false>,
                   p));
        return SwitchTiles(split.rank_tiles(), [&](auto tiles) {
          constexpr StreamElement kMasked = StreamElement::kMasked;
          constexpr StreamElement kAsIs = StreamElement::kAsIs;
          return Launch(
              "ExpandLayerNormBackward of b", sums_shape,
              key.rate > 0
                  ? StreamSumsKernel<precision.value, tiles.value, kMasked>
                  : StreamSumsKernel<precision.value, tiles.value, kAsIs>,
              s);
        });
      });
}

}  // namespace comera::kernels
