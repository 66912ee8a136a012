// Multiplies small matrices with blocks of the result in registers.
#include "kernels/cpu/products/small_gemm.h"

#include <cstring>

#include "kernels/cpu/products/lanes.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// Rows of c that are summed in registers at once.
constexpr int kRows = 6;

// kCount rows of kVectors vectors of c, summed in registers.
template <int kLanes, int kVectors, int kCount>
COMERA_INLINE void Block(const SmallGemmShape& s, float alpha, const float* a,
                         const float* b, float beta, float* c) {
  using V = typename Lanes<kLanes>::Type;
  // One flat loop over the sums: nested ones the compiler unrolls too late to
  // keep them in registers.
  constexpr int kSums = kCount * kVectors;
  V sum[kSums] = {};
  for (int64_t p = 0; p < s.k; ++p) {
    V row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(&row[v], b + p * s.b_row + v * kLanes, sizeof(V));
    }
#pragma GCC unroll 16
    for (int n = 0; n < kSums; ++n) {
      sum[n] += row[n % kVectors] * a[n / kVectors * s.a_row + p * s.a_col];
    }
  }
#pragma GCC unroll 16
  for (int n = 0; n < kSums; ++n) {
    float* const to = c + n / kVectors * s.c_row + n % kVectors * kLanes;
    V out = sum[n] * alpha;
    if (beta != 0) {
      V old;
      std::memcpy(&old, to, sizeof(V));
      out += old * beta;
    }
    std::memcpy(to, &out, sizeof(V));
  }
}

template <int kLanes, int kVectors>
COMERA_INLINE void Columns(const SmallGemmShape& s, float alpha, const float* a,
                           const float* b, float beta, float* c) {
  int64_t i = 0;
  for (; i + kRows <= s.m; i += kRows) {
    Block<kLanes, kVectors, kRows>(s, alpha, a + i * s.a_row, b, beta,
                                   c + i * s.c_row);
  }
  for (; i + 2 <= s.m; i += 2) {
    Block<kLanes, kVectors, 2>(s, alpha, a + i * s.a_row, b, beta,
                               c + i * s.c_row);
  }
  if (i < s.m) {
    Block<kLanes, kVectors, 1>(s, alpha, a + i * s.a_row, b, beta,
                               c + i * s.c_row);
  }
}

// Blocks of 16 columns as vectors of kLanes.
template <int kLanes>
COMERA_INLINE void AllColumns(const SmallGemmShape& s, float alpha,
                              const float* a, const float* b, float beta,
                              float* c) {
  int64_t j = 0;
  // A single row needs more columns for its sums not to wait for each other.
  for (; s.m == 1 && j + 64 <= s.n; j += 64) {
    Block<kLanes, 64 / kLanes, 1>(s, alpha, a, b + j, beta, c + j);
  }
  // Two vectors of 16 columns: with one, a block has six sums, and each
  // addition would wait for the one before it to end.
  if constexpr (kLanes == 16) {
    for (; j + 32 <= s.n; j += 32) {
      Columns<16, 2>(s, alpha, a, b + j, beta, c + j);
    }
  }
  for (; j + 16 <= s.n; j += 16) {
    Columns<kLanes, 16 / kLanes>(s, alpha, a, b + j, beta, c + j);
  }
  if (j + 8 <= s.n) {
    Columns<8, 1>(s, alpha, a, b + j, beta, c + j);
    j += 8;
  }
  if (j + 4 <= s.n) {
    Columns<4, 1>(s, alpha, a, b + j, beta, c + j);
    j += 4;
  }
  for (; j < s.n; ++j) Columns<1, 1>(s, alpha, a, b + j, beta, c + j);
}

// Six rows of two vectors fill the registers of AVX2. Vectors of 16 the
// compiler would keep in memory there.
COMERA_CLONES
void Narrow(const SmallGemmShape& s, float alpha, const float* a,
            const float* b, float beta, float* c) {
  AllColumns<8>(s, alpha, a, b, beta, c);
}

#if defined(COMERA_TARGETS)
__attribute__((target("arch=x86-64-v4"))) void Wide(const SmallGemmShape& s,
                                                    float alpha, const float* a,
                                                    const float* b, float beta,
                                                    float* c) {
  AllColumns<16>(s, alpha, a, b, beta, c);
}
#endif

}  // namespace

void SmallGemm(const SmallGemmShape& shape, float alpha, const float* a,
               const float* b, float beta, float* c) {
#if defined(COMERA_TARGETS)
  static const bool wide = HasX86V4();
  if (wide) {
    Wide(shape, alpha, a, b, beta, c);
    return;
  }
#endif
  Narrow(shape, alpha, a, b, beta, c);
}

}  // namespace comera::kernels
