// Multiplies few rows with a matrix that streams from memory.
#include "kernels/cpu/products/thin_gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/row_tiles.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// Elements of c that stay in the second cache while b passes: rows of b are
// then read from end to end, which memory gives several times faster than
// pieces of them.
constexpr int64_t kHeldFloats = 65536;
// Columns of four rows of b, and of all rows of c, that lie in the first cache.
constexpr int64_t kColumns = 512;
// Terms of dot products after which the next rows of c take theirs, while four
// rows of b are in the nearest cache.
constexpr int64_t kTerms = 1024;
// Columns that go to the same thread; a multiple of the four of a tile.
constexpr int64_t kGrain = 16;

// Rows [i, i + kRows) of c += a b over terms [p, p + 4).
template <int kRows>
COMERA_INLINE void AddTerms(const ThinGemmShape& s, float alpha, const float* a,
                            const float* b, int64_t i, int64_t p, float* c,
                            int64_t n) {
  float factors[kRows][4];
  for (int row = 0; row < kRows; ++row) {
    for (int term = 0; term < 4; ++term) {
      factors[row][term] =
          alpha * a[(i + row) * s.a_row + (p + term) * s.a_col];
    }
  }
  AddFour<kRows>(factors, b + p * s.b_row, s.b_row, c + i * s.c_row, s.c_row,
                 n);
}

// All rows of c += a b over terms [p, p + 4).
COMERA_INLINE void AddTermsToAll(const ThinGemmShape& s, float alpha,
                                 const float* a, const float* b, int64_t p,
                                 float* c, int64_t n) {
  int64_t i = 0;
  for (; i + 2 <= s.m; i += 2) AddTerms<2>(s, alpha, a, b, i, p, c, n);
  if (i < s.m) AddTerms<1>(s, alpha, a, b, i, p, c, n);
}

COMERA_CLONES
void MultiplyRows(const ThinGemmShape& s, float alpha, const float* a,
                  const float* b, float beta, float* c) {
  const int64_t most = kHeldFloats / s.m;
  for (int64_t first = 0; first < s.n; first += most) {
    const int64_t n = std::min(most, s.n - first);
    for (int64_t i = 0; i < s.m; ++i) {
      float* row = c + i * s.c_row + first;
      for (int64_t j = 0; j < n; ++j) row[j] = beta == 0 ? 0 : beta * row[j];
    }
    int64_t p = 0;
    for (; p + 4 <= s.k; p += 4) {
      for (int64_t j = first; j < first + n; j += kColumns) {
        AddTermsToAll(s, alpha, a, b + j, p, c + j,
                      std::min(kColumns, first + n - j));
      }
    }
    for (; p < s.k; ++p) {
      const float* from = b + p * s.b_row + first;
      for (int64_t i = 0; i < s.m; ++i) {
        const float factor = alpha * a[i * s.a_row + p * s.a_col];
        float* __restrict row = c + i * s.c_row + first;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) row[j] += factor * from[j];
      }
    }
  }
}

// Elements [j, j + 4) of kRows rows of c = alpha * dot products + beta * c.
template <int kRows>
COMERA_INLINE void DotTile(const float* b, int64_t b_row, const float* a,
                           int64_t a_row, int64_t k, float alpha, float beta,
                           float* c, int64_t c_row) {
  FourFloats totals[kRows];
  DotFour<kRows>(b, b_row, a, a_row, k, totals);
  for (int i = 0; i < kRows; ++i) {
    FourFloats out = totals[i] * alpha;
    if (beta != 0) {
      FourFloats old;
      std::memcpy(&old, c + i * c_row, sizeof(old));
      out += old * beta;
    }
    std::memcpy(c + i * c_row, &out, sizeof(out));
  }
}

COMERA_CLONES
void MultiplyTransposed(const ThinGemmShape& s, float alpha, const float* a,
                        const float* b, float beta, float* c) {
  int64_t j = 0;
  for (; j + 4 <= s.n; j += 4) {
    for (int64_t p = 0; p < s.k; p += kTerms) {
      const int64_t terms = std::min(kTerms, s.k - p);
      const float* rows = b + j * s.b_row + p;
      const float old = p == 0 ? beta : 1.0f;
      int64_t i = 0;
      for (; i + 2 <= s.m; i += 2) {
        DotTile<2>(rows, s.b_row, a + i * s.a_row + p, s.a_row, terms, alpha,
                   old, c + i * s.c_row + j, s.c_row);
      }
      if (i < s.m) {
        DotTile<1>(rows, s.b_row, a + i * s.a_row + p, s.a_row, terms, alpha,
                   old, c + i * s.c_row + j, s.c_row);
      }
    }
  }
  for (; j < s.n; ++j) {
    for (int64_t i = 0; i < s.m; ++i) {
      float* const to = c + i * s.c_row + j;
      const float old = beta == 0 ? 0 : beta * *to;
      *to = old + alpha * DotOne(a + i * s.a_row, b + j * s.b_row, s.k);
    }
  }
}

}  // namespace

bool ThinGemmPays(bool transpose_b, int64_t m, int64_t n) {
  return m >= 2 && m <= 8 && (transpose_b || n >= 256);
}

void ThinGemm(const ThinGemmShape& shape, bool transpose_b, float alpha,
              const float* a, const float* b, float beta, float* c,
              int threads) {
  ParallelRanges(threads, (shape.n + kGrain - 1) / kGrain, kGrain * shape.k,
                 [&](int64_t begin, int64_t end) {
                   const int64_t first = begin * kGrain;
                   ThinGemmShape part = shape;
                   part.n = std::min(end * kGrain, shape.n) - first;
                   if (transpose_b) {
                     MultiplyTransposed(part, alpha, a, b + first * shape.b_row,
                                        beta, c + first);
                   } else {
                     MultiplyRows(part, alpha, a, b + first, beta, c + first);
                   }
                 });
}

}  // namespace comera::kernels
