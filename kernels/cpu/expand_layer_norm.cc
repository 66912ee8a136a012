// Normalises rows of dropout(t b) + residual, panel by panel in cache.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/panel_pack.h"
#include "kernels/cpu/products/panel_product.h"
#include "kernels/cpu/stream_tiles.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Calls f(panel, column, count, scales) over a row; scales is null without
// dropout.
template <typename F>
void ForMaskedPanels(const DropoutMask& mask, int64_t row,
                     const StreamLayout& layout, const F& f) {
  alignas(64) float scales[kPanelWidth];
  for (int64_t p = 0; p < layout.panels; ++p) {
    const int64_t c = p * kPanelWidth, n = layout.PanelColumns(p);
    if (mask.active()) mask.Fill(row, c, n, scales);
    f(p, c, n, mask.active() ? scales : nullptr);
  }
}

}  // namespace

int64_t CpuBackend::RankSpaceStreamWorkspaceBytes(int64_t rows, int64_t rank,
                                                  int64_t cols) {
  return StreamLayout(rows, rank, cols).bytes(threads_);
}

absl::Status CpuBackend::ExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
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
  const StreamLayout layout(rows, t.cols - 1, cols);
  RETURN_IF_ERROR(
      CheckMemory(kOp, "workspace", workspace, layout.bytes(threads_)));

  const DropoutMask mask(key);
  const PanelProducts& products = BestPanelProducts();
  const int64_t panel_floats = layout.up * kPanelWidth;
  const auto prepare = [&](float* scratch) {
    for (int64_t p = 0; p < layout.panels; ++p) {
      PackRows(ConstMatrix(b.data + p * kPanelWidth, layout.up,
                           layout.PanelColumns(p), b.stride),
               kPanelWidth, scratch + layout.packed + p * panel_floats);
    }
  };
  const auto task = [&](int64_t range, float* scratch) {
    float* tile = scratch + layout.tile;
    ForTiles(layout, range, t, scratch + layout.edge, [&](const StreamTile& r) {
      for (int64_t p = 0; p < layout.panels; ++p) {
        products.wide(r.filled, layout.up, r.t.data, r.t.stride,
                      scratch + layout.packed + p * panel_floats,
                      tile + p * kPanelTile);
      }
      for (int64_t i = 0; i < r.count; ++i) {
        const int64_t row = r.first + i;
        const float* add = residual.data + row * residual.stride;
        float* to = normalised.data + row * normalised.stride;
        ForMaskedPanels(
            mask, row, layout,
            [&](int64_t p, int64_t c, int64_t n, const float* scales) {
              SumRun(tile + p * kPanelTile + i * kPanelStride, scales, add + c,
                     to + c, n);
            });
        inverse_deviation.data[row] = NormaliseRow(
            to, gamma.data, beta.data, epsilon, y.data + row * y.stride, cols);
      }
    });
  };
  ForRanges(threads_, layout, static_cast<float*>(workspace), prepare, task);
  return absl::OkStatus();
}

absl::Status CpuBackend::ExpandLayerNormBackward(
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
  const StreamLayout layout(rows, t.cols - 1, cols);
  RETURN_IF_ERROR(
      CheckMemory(kOp, "workspace", workspace, layout.bytes(threads_)));

  const DropoutMask mask(key);
  const PanelProducts& products = BestPanelProducts();
  float* sums = static_cast<float*>(workspace);
  const int64_t width = layout.width;
  const auto prepare = [&](float* scratch) {
    // The columns between cols and width stay zero.
    std::fill(scratch + layout.tile, scratch + layout.product, 0.0f);
    PackTransposed(ConstMatrix(b.data, layout.rank, cols, b.stride), width,
                   layout.padded, scratch + layout.packed);
  };
  const auto task = [&](int64_t range, float* scratch) {
    const float* packed = scratch + layout.packed;
    float* tile = scratch + layout.tile;
    float* tokens = scratch + layout.token_sums;
    float* grad_b_sums = sums + range * layout.sum_floats;
    float* gamma_sums = grad_b_sums + layout.up * width;
    float* beta_sums = gamma_sums + width;
    const bool empty = layout.RangeBegin(range) == layout.RangeBegin(range + 1);
    std::fill(empty ? grad_b_sums : gamma_sums, beta_sums + width, 0.0f);
    ForTiles(layout, range, t, scratch + layout.edge, [&](const StreamTile& r) {
      for (int64_t i = 0; i < r.count; ++i) {
        const int64_t row = r.first + i;
        float* grad = grad_residual.data + row * grad_residual.stride;
        BackwardRow(grad_y.data + row * grad_y.stride,
                    normalised.data + row * normalised.stride, gamma.data,
                    inverse_deviation.data[row], grad, gamma_sums, beta_sums,
                    cols);
        ForMaskedPanels(
            mask, row, layout,
            [&](int64_t p, int64_t c, int64_t n, const float* scales) {
              MaskRun(grad + c, scales,
                      tile + p * kPanelTile + i * kPanelStride, n);
            });
      }
      for (int64_t p = 0; p < layout.panels; ++p) {
        float* panel = tile + p * kPanelTile;
        // Rows that fill up the step; of T~ they are zeros.
        std::fill(panel + r.count * kPanelStride,
                  panel + r.filled * kPanelStride, 0.0f);
        products.narrow(r.filled, panel,
                        packed + p * kPanelWidth * layout.padded, layout.padded,
                        p == 0, tokens);
        products.sums(r.filled, layout.up, r.t.data, r.t.stride, panel,
                      r.first_of_range,
                      grad_b_sums + p * layout.up * kPanelWidth);
      }
      for (int64_t i = 0; i < r.count; ++i) {
        const float* from = tokens + i * layout.padded;
        std::copy(from, from + grad_t.cols,
                  grad_t.data + (r.first + i) * grad_t.stride);
      }
    });
  };
  ForRanges(threads_, layout, sums, prepare, task);

  ParallelRanges(
      threads_, layout.up + 2, layout.ranges * cols,
      [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          if (k < layout.up) {
            AddRanges(layout, sums, layout.up, k,
                      grad_b.data + k * grad_b.stride);
          } else {
            AddRanges(layout,
                      sums + layout.up * width + (k - layout.up) * width, 1, 0,
                      k == layout.up ? grad_gamma.data : grad_beta.data);
          }
        }
      });
  return absl::OkStatus();
}

}  // namespace comera::kernels
