// Multiplies matrices that lie in the nearest caches, without packing.
#include "kernels/cpu/products/panel_gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/products/lanes.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// kRows rows of kVectors vectors of c, summed in registers.
template <int kLanes, int kVectors, int kRows>
COMERA_INLINE void Tile(const PanelShape& s, const float* a, const float* b,
                        bool accumulate, float* c) {
  using V = typename Lanes<kLanes>::Type;
  V sum[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      if (accumulate) {
        std::memcpy(&sum[i][v], c + i * s.c_row + v * kLanes, sizeof(V));
      } else {
        sum[i][v] = V{};
      }
    }
  }
  for (int64_t p = 0; p < s.k; ++p) {
    V row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&row[v], b + p * s.b_row + v * kLanes, sizeof(V));
    }
    for (int i = 0; i < kRows; ++i) {
      const float factor = a[i * s.a_row + p * s.a_col];
      for (int v = 0; v < kVectors; ++v) sum[i][v] += row[v] * factor;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(c + i * s.c_row + v * kLanes, &sum[i][v], sizeof(V));
    }
  }
}

template <int kLanes, int kVectors, int kRows>
COMERA_INLINE void Columns(const PanelShape& s, const float* a, const float* b,
                           bool accumulate, float* c) {
  int64_t i = 0;
  for (; i + kRows <= s.m; i += kRows) {
    Tile<kLanes, kVectors, kRows>(s, a + i * s.a_row, b, accumulate,
                                  c + i * s.c_row);
  }
  for (; i + 2 <= s.m; i += 2) {
    Tile<kLanes, kVectors, 2>(s, a + i * s.a_row, b, accumulate,
                              c + i * s.c_row);
  }
  if (i < s.m) {
    Tile<kLanes, kVectors, 1>(s, a + i * s.a_row, b, accumulate,
                              c + i * s.c_row);
  }
}

// Columns [j, n) that are no whole vectors of 16.
COMERA_INLINE void Rest(const PanelShape& s, int64_t j, const float* a,
                        const float* b, bool accumulate, float* c) {
  if (j + 8 <= s.n) {
    Columns<8, 1, 6>(s, a, b + j, accumulate, c + j);
    j += 8;
  }
  if (j + 4 <= s.n) {
    Columns<4, 1, 6>(s, a, b + j, accumulate, c + j);
    j += 4;
  }
  for (; j < s.n; ++j) Columns<1, 1, 6>(s, a, b + j, accumulate, c + j);
}

// Tiles of 6 x 16 floats, which fill the registers of AVX2. Vectors of 16 the
// compiler would keep in memory there.
COMERA_CLONES
void Narrow(const PanelShape& s, const float* a, const float* b,
            bool accumulate, float* c) {
  int64_t j = 0;
  for (; j + 16 <= s.n; j += 16) {
    Columns<8, 2, 6>(s, a, b + j, accumulate, c + j);
  }
  Rest(s, j, a, b, accumulate, c);
}

#if defined(__x86_64__)
// Tiles of 8 x 32 floats: sixteen sums keep both units of AVX-512 busy. Which
// stride of `a` is 1 is known when compiled.
template <bool kTransposed>
COMERA_INLINE void WideColumns(PanelShape s, const float* a, const float* b,
                               bool accumulate, float* c) {
  if (kTransposed) {
    s.a_row = 1;
  } else {
    s.a_col = 1;
  }
  int64_t j = 0;
  for (; j + 32 <= s.n; j += 32) {
    Columns<16, 2, 8>(s, a, b + j, accumulate, c + j);
  }
  for (; j + 16 <= s.n; j += 16) {
    Columns<16, 1, 8>(s, a, b + j, accumulate, c + j);
  }
  Rest(s, j, a, b, accumulate, c);
}

__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))) void Wide(
    const PanelShape& s, const float* a, const float* b, bool accumulate,
    float* c) {
  if (s.a_row == 1) {
    WideColumns<true>(s, a, b, accumulate, c);
  } else {
    WideColumns<false>(s, a, b, accumulate, c);
  }
}

bool HasWide() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 &&
                          __builtin_cpu_supports("avx512dq") != 0;
  return has;
}
#endif

typedef float Four __attribute__((vector_size(16)));

// to[j] = column j of the rows at `from`.
COMERA_INLINE void TransposeFour(const float* from, int64_t row, Four factor,
                                 float* to, int64_t to_row) {
  Four r[4];
  for (int i = 0; i < 4; ++i) {
    std::memcpy(&r[i], from + i * row, sizeof(Four));
    r[i] *= factor;
  }
  const Four low01 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const Four low23 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Four high23 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  const Four columns[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                           __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                           __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                           __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int j = 0; j < 4; ++j) {
    std::memcpy(to + j * to_row, &columns[j], sizeof(Four));
  }
}

}  // namespace

void PanelGemm(const PanelShape& shape, const float* a, const float* b,
               bool accumulate, float* c) {
#if defined(__x86_64__)
  if (HasWide() && (shape.a_row == 1 || shape.a_col == 1)) {
    Wide(shape, a, b, accumulate, c);
    return;
  }
#endif
  Narrow(shape, a, b, accumulate, c);
}

void TransposePanel(float factor, const float* in, int64_t in_row, int64_t rows,
                    int64_t cols, float* out, int64_t out_row) {
  const Four factors = {factor, factor, factor, factor};
  const int64_t whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
  for (int64_t i = 0; i < whole_rows; i += 4) {
    for (int64_t j = 0; j < whole_cols; j += 4) {
      TransposeFour(in + i * in_row + j, in_row, factors, out + j * out_row + i,
                    out_row);
    }
  }
  for (int64_t j = 0; j < cols; ++j) {
    float* to = out + j * out_row;
    for (int64_t i = j < whole_cols ? whole_rows : 0; i < rows; ++i) {
      to[i] = factor * in[i * in_row + j];
    }
    std::fill(to + rows, to + out_row, 0.0f);
  }
}

void PadPanel(float factor, const float* in, int64_t in_row, int64_t rows,
              int64_t cols, float* out, int64_t out_row) {
  for (int64_t i = 0; i < rows; ++i) {
    float* to = out + i * out_row;
    for (int64_t j = 0; j < cols; ++j) to[j] = factor * in[i * in_row + j];
    std::fill(to + cols, to + out_row, 0.0f);
  }
}

}  // namespace comera::kernels
