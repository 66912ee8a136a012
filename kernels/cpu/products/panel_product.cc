// Multiplies a tile of tokens and a block of a layer, compiled per processor.
#include "kernels/cpu/products/panel_product.h"

#include "kernels/cpu/products/register_product.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// Register blocks for one width of vector registers: kWideRows x kWideColumns
// where the panel lies along the vectors, kNarrowRows x (1 or 2) * kLanes where
// the rank does.
template <int kLaneCount, int kVectors, int kRows>
struct Registers {
  static constexpr int kLanes = kLaneCount;
  static constexpr int kWideRows = 6;
  static constexpr int kWideVectors = kVectors;
  static constexpr int kWideColumns = kLanes * kVectors;
  static constexpr int kNarrowRows = kRows;
  static_assert(kPanelWidth % kWideColumns == 0, "");
  static_assert(kPanelRowStep % kWideRows == 0, "");
  static_assert(kPanelRowStep % kNarrowRows == 0, "");
  static_assert(kPanelRankStep % kLanes == 0, "");
};

template <typename R, bool kTimes>
COMERA_INLINE void Wide(int64_t rows, int64_t k, const float* a, int64_t a_row,
                        const float* b, float* tile) {
  for (int64_t j = 0; j < kPanelWidth; j += R::kWideColumns) {
    for (int64_t i = 0; i < rows; i += R::kWideRows) {
      RegisterTile<R::kWideRows, R::kWideVectors, R::kLanes> product;
      product.Clear();
      product.AddProduct(a + i * a_row, a_row, 1, b + j, kPanelWidth, k);
      float* to = tile + i * kPanelStride + j;
      if (kTimes) product.Multiply(to, kPanelStride);
      product.Store(to, kPanelStride);
    }
  }
}

template <typename R, int kVectors>
COMERA_INLINE void NarrowColumns(int64_t rows, const float* tile,
                                 const float* weights, int64_t rank, bool first,
                                 float* sums) {
  for (int64_t i = 0; i < rows; i += R::kNarrowRows) {
    RegisterTile<R::kNarrowRows, kVectors, R::kLanes> product;
    product.Clear();
    if (!first) product.Load(sums + i * rank, rank);
    product.AddProduct(tile + i * kPanelStride, kPanelStride, 1, weights, rank,
                       kPanelWidth);
    product.Store(sums + i * rank, rank);
  }
}
template <typename R>
COMERA_INLINE void Narrow(int64_t rows, const float* tile, const float* weights,
                          int64_t rank, bool first, float* sums) {
  int64_t j = 0;
  for (; j + 2 * R::kLanes <= rank; j += 2 * R::kLanes) {
    NarrowColumns<R, 2>(rows, tile, weights + j, rank, first, sums + j);
  }
  if (j < rank) {
    NarrowColumns<R, 1>(rows, tile, weights + j, rank, first, sums + j);
  }
}

template <typename R, int kRows>
COMERA_INLINE void SumRows(int64_t rows, const float* a, int64_t a_row,
                           const float* tile, bool first, float* sums) {
  for (int64_t j = 0; j < kPanelWidth; j += R::kWideColumns) {
    RegisterTile<kRows, R::kWideVectors, R::kLanes> product;
    product.Clear();
    if (!first) product.Load(sums + j, kPanelWidth);
    product.AddProduct(a, 1, a_row, tile + j, kPanelStride, rows);
    product.Store(sums + j, kPanelWidth);
  }
}
// In groups of about equal size that fit the registers.
template <typename R>
COMERA_INLINE void Sums(int64_t rows, int64_t k, const float* a, int64_t a_row,
                        const float* tile, bool first, float* sums) {
  const int64_t groups = (k + R::kWideRows - 1) / R::kWideRows;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = k * g / groups;
    const float* from = a + begin;
    float* to = sums + begin * kPanelWidth;
    switch (k * (g + 1) / groups - begin) {
      case 1:
        SumRows<R, 1>(rows, from, a_row, tile, first, to);
        break;
      case 2:
        SumRows<R, 2>(rows, from, a_row, tile, first, to);
        break;
      case 3:
        SumRows<R, 3>(rows, from, a_row, tile, first, to);
        break;
      case 4:
        SumRows<R, 4>(rows, from, a_row, tile, first, to);
        break;
      case 5:
        SumRows<R, 5>(rows, from, a_row, tile, first, to);
        break;
      default:
        SumRows<R, 6>(rows, from, a_row, tile, first, to);
    }
  }
}

// The four products under one target attribute, each a function of its own.
#define COMERA_PANEL_PRODUCTS(NAME, TARGET, REGISTERS)                         \
  struct NAME {                                                                \
    TARGET static void WideOf(int64_t rows, int64_t k, const float* a,         \
                              int64_t a_row, const float* b, float* tile) {    \
      Wide<REGISTERS, false>(rows, k, a, a_row, b, tile);                      \
    }                                                                          \
    TARGET static void WideTimes(int64_t rows, int64_t k, const float* a,      \
                                 int64_t a_row, const float* b, float* tile) { \
      Wide<REGISTERS, true>(rows, k, a, a_row, b, tile);                       \
    }                                                                          \
    TARGET static void NarrowOf(int64_t rows, const float* tile,               \
                                const float* weights, int64_t rank,            \
                                bool first, float* sums) {                     \
      Narrow<REGISTERS>(rows, tile, weights, rank, first, sums);               \
    }                                                                          \
    TARGET static void SumsOf(int64_t rows, int64_t k, const float* a,         \
                              int64_t a_row, const float* tile, bool first,    \
                              float* sums) {                                   \
      Sums<REGISTERS>(rows, k, a, a_row, tile, first, sums);                   \
    }                                                                          \
    static PanelProducts Products() {                                          \
      return {WideOf, WideTimes, NarrowOf, SumsOf};                            \
    }                                                                          \
  };

using Registers512 = Registers<16, 4, 12>;
using Registers256 = Registers<8, 2, 6>;
#if defined(COMERA_TARGETS)
COMERA_PANEL_PRODUCTS(PanelsX86V4, __attribute__((target("arch=x86-64-v4"))),
                      Registers512)
COMERA_PANEL_PRODUCTS(PanelsX86V3, __attribute__((target("arch=x86-64-v3"))),
                      Registers256)
#endif
COMERA_PANEL_PRODUCTS(PanelsAnywhere, , Registers256)

}  // namespace

const PanelProducts& BestPanelProducts() {
  static const PanelProducts best = [] {
#if defined(COMERA_TARGETS)
    if (HasX86V4()) return PanelsX86V4::Products();
    if (HasX86V3()) return PanelsX86V3::Products();
#endif
    return PanelsAnywhere::Products();
  }();
  return best;
}

}  // namespace comera::kernels
