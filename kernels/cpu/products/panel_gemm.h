// A register-blocked matrix product for operands that lie in the nearest caches
// and are few enough columns wide that packing them, as a general GEMM does,
// would cost as much as the product: the blocks of attention.
#ifndef COMERA_KERNELS_CPU_PRODUCTS_PANEL_GEMM_H_
#define COMERA_KERNELS_CPU_PRODUCTS_PANEL_GEMM_H_

#include <cstdint>

namespace comera::kernels {

// c (m, n) = or, if `accumulate`, += a (m, k) b (k, n). Element (i, p) of a
// lies at a[i * a_row + p * a_col]: a transposed `a` is a matter of strides.
// Rows of b and c are contiguous; n is best a multiple of 32.
struct PanelShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0;
  int64_t b_row = 0;
  int64_t c_row = 0;
};
void PanelGemm(const PanelShape& shape, const float* a, const float* b,
               bool accumulate, float* c);

// out (cols, rows) = factor * in (rows, cols); rows of out are `out_row` floats
// apart and filled with zeros up to that.
void TransposePanel(float factor, const float* in, int64_t in_row, int64_t rows,
                    int64_t cols, float* out, int64_t out_row);

// out (rows, out_row) = factor * in (rows, cols), filled with zeros.
void PadPanel(float factor, const float* in, int64_t in_row, int64_t rows,
              int64_t cols, float* out, int64_t out_row);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_PRODUCTS_PANEL_GEMM_H_
