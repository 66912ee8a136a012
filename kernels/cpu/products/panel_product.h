// Products with one side of a rank and everything in cache: what rank-space
// kernels do with a tile of tokens and a block of a layer's width. Called from
// inside parallel regions; nothing is packed, checked or allocated.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_PANEL_PRODUCT_H_
#define COMERA_KERNELS_CPU_PRODUCTS_PANEL_PRODUCT_H_

#include <cstdint>

namespace comera::kernels {

// Columns of a panel (a block of the width).
inline constexpr int64_t kPanelWidth = 128;
// The stride of a tile of tokens x panel: no power of two, for the cache.
inline constexpr int64_t kPanelStride = kPanelWidth + 16;
// Tokens of a tile are a multiple of this,
inline constexpr int64_t kPanelRowStep = 12;
// and padded ranks of this.
inline constexpr int64_t kPanelRankStep = 16;

// "Packed": no gaps between rows. Rows of `a` begin a_row floats apart.
struct PanelProducts {
  // tile (rows, kPanelWidth) = a (rows, k) b (k, kPanelWidth); b is packed.
  void (*wide)(int64_t rows, int64_t k, const float* a, int64_t a_row,
               const float* b, float* tile);
  // tile *= a b, element by element.
  void (*wide_times)(int64_t rows, int64_t k, const float* a, int64_t a_row,
                     const float* b, float* tile);
  // sums (rows, rank) = or, unless `first`, += tile (rows, kPanelWidth) weights
  // (kPanelWidth, rank); rank is padded, sums and weights are packed.
  void (*narrow)(int64_t rows, const float* tile, const float* weights,
                 int64_t rank, bool first, float* sums);
  // sums (k, kPanelWidth) = or, unless `first`, += a (rows, k)^T tile (rows,
  // kPanelWidth); sums are packed.
  void (*sums)(int64_t rows, int64_t k, const float* a, int64_t a_row,
               const float* tile, bool first, float* sums);
};

// The products that suit this processor.
const PanelProducts& BestPanelProducts();

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_PANEL_PRODUCT_H_
