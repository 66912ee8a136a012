// Computes the gradients of a branch's first product, tile by tile.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/panel_pack.h"
#include "kernels/cpu/products/panel_product.h"
#include "kernels/cpu/stream_tiles.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {

absl::Status CpuBackend::ProjectBackward(ConstMatrix x, ConstVector gamma,
                                         ConstVector beta, ConstMatrix grad_t,
                                         ConstMatrix a, Matrix grad_a,
                                         Matrix grad_x, void* workspace) {
  constexpr char kOp[] = "ProjectBackward";
  const int64_t rows = x.rows, cols = x.cols;
  const bool scaled = gamma.data != nullptr;
  RETURN_IF_ERROR(
      CheckProjectBackward(x, gamma, beta, grad_t, a, grad_a, grad_x));
  if (rows == 0 || cols == 0 || a.cols == 0) return absl::OkStatus();
  const StreamLayout layout(rows, a.cols, cols);
  RETURN_IF_ERROR(
      CheckMemory(kOp, "workspace", workspace, layout.bytes(threads_)));

  const PanelProducts& products = BestPanelProducts();
  float* sums = static_cast<float*>(workspace);
  const int64_t panel_floats = layout.rank * kPanelWidth;
  const auto prepare = [&](float* scratch) {
    // The columns between cols and width stay zero.
    std::fill(scratch + layout.tile, scratch + layout.product, 0.0f);
    for (int64_t p = 0; p < layout.panels; ++p) {
      PackTransposed(ConstMatrix(a.data + p * kPanelWidth * a.stride,
                                 layout.PanelColumns(p), a.cols, a.stride),
                     layout.rank, kPanelWidth,
                     scratch + layout.packed + p * panel_floats);
    }
  };
  const auto task = [&](int64_t range, float* scratch) {
    float* tile = scratch + layout.tile;
    float* product = scratch + layout.product;
    float* range_sums = sums + range * layout.sum_floats;
    if (layout.RangeBegin(range) == layout.RangeBegin(range + 1)) {
      std::fill(range_sums, range_sums + layout.rank * layout.width, 0.0f);
    }
    ForTiles(
        layout, range, grad_t, scratch + layout.edge, [&](const StreamTile& r) {
          for (int64_t p = 0; p < layout.panels; ++p) {
            const int64_t c = p * kPanelWidth, n = layout.PanelColumns(p);
            float* panel = tile + p * kPanelTile;
            for (int64_t i = 0; i < r.count; ++i) {
              const float* from = x.data + (r.first + i) * x.stride + c;
              float* to = panel + i * kPanelStride;
              if (scaled) {
                OutputRun(from, gamma.data + c, beta.data + c, nullptr, to, n);
              } else {
                std::copy(from, from + n, to);
              }
            }
            // Rows that fill up the step; of the rank vectors they are zeros.
            std::fill(panel + r.count * kPanelStride,
                      panel + r.filled * kPanelStride, 0.0f);
            products.sums(r.filled, layout.rank, r.t.data, r.t.stride, panel,
                          r.first_of_range, range_sums + p * panel_floats);
            products.wide(r.filled, layout.rank, r.t.data, r.t.stride,
                          scratch + layout.packed + p * panel_floats, product);
            for (int64_t i = 0; i < r.count; ++i) {
              float* to = grad_x.data + (r.first + i) * grad_x.stride + c;
              SumRun(product + i * kPanelStride, nullptr, to, to, n);
            }
          }
        });
  };
  ForRanges(threads_, layout, sums, prepare, task);

  // The first range's sums get all, and go to grad_a transposed.
  ParallelRanges(threads_, layout.panels, layout.ranges * panel_floats,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t p = begin; p < end; ++p) {
                     float* total = sums + p * panel_floats;
                     for (int64_t range = 1; range < layout.ranges; ++range) {
                       SumRun(total + range * layout.sum_floats, nullptr, total,
                              total, panel_floats);
                     }
                     for (int64_t c = 0; c < layout.PanelColumns(p); ++c) {
                       float* to =
                           grad_a.data + (p * kPanelWidth + c) * grad_a.stride;
                       for (int64_t k = 0; k < layout.rank; ++k) {
                         to[k] += total[k * kPanelWidth + c];
                       }
                     }
                   }
                 });
  return absl::OkStatus();
}

}  // namespace comera::kernels
