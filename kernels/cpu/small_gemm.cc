// Multiplies small matrices with blocks of the result in registers.
#include "kernels/cpu/small_gemm.h"

#include <cstring>

#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// Lanes of one column block; the compiler splits the widest where the
// processor's registers are narrower.
template <int kLanes>
struct Lanes {
  typedef float Type __attribute__((vector_size(kLanes * sizeof(float))));
};
template <>
struct Lanes<1> {
  typedef float Type;
};

// Rows of c that are summed in registers at once.
constexpr int kRows = 6;

template <int kLanes, int kCount>
COMERA_INLINE void Block(const SmallGemmShape& s, float alpha, const float* a,
                         const float* b, float beta, float* c) {
  using V = typename Lanes<kLanes>::Type;
  V sum[kCount] = {};
  for (int64_t p = 0; p < s.k; ++p) {
    V row;
    std::memcpy(&row, b + p * s.b_row, sizeof(V));
    for (int i = 0; i < kCount; ++i) {
      sum[i] += row * a[i * s.a_row + p * s.a_col];
    }
  }
  for (int i = 0; i < kCount; ++i) {
    V out = sum[i] * alpha;
    if (beta != 0) {
      V old;
      std::memcpy(&old, c + i * s.c_row, sizeof(V));
      out += old * beta;
    }
    std::memcpy(c + i * s.c_row, &out, sizeof(V));
  }
}

template <int kLanes>
COMERA_INLINE void Columns(const SmallGemmShape& s, float alpha, const float* a,
                           const float* b, float beta, float* c) {
  int64_t i = 0;
  for (; i + kRows <= s.m; i += kRows) {
    Block<kLanes, kRows>(s, alpha, a + i * s.a_row, b, beta, c + i * s.c_row);
  }
  for (; i + 2 <= s.m; i += 2) {
    Block<kLanes, 2>(s, alpha, a + i * s.a_row, b, beta, c + i * s.c_row);
  }
  if (i < s.m) {
    Block<kLanes, 1>(s, alpha, a + i * s.a_row, b, beta, c + i * s.c_row);
  }
}

COMERA_CLONES
void Product(const SmallGemmShape& s, float alpha, const float* a,
             const float* b, float beta, float* c) {
  int64_t j = 0;
  for (; j + 16 <= s.n; j += 16) Columns<16>(s, alpha, a, b + j, beta, c + j);
  if (j + 8 <= s.n) {
    Columns<8>(s, alpha, a, b + j, beta, c + j);
    j += 8;
  }
  if (j + 4 <= s.n) {
    Columns<4>(s, alpha, a, b + j, beta, c + j);
    j += 4;
  }
  for (; j < s.n; ++j) Columns<1>(s, alpha, a, b + j, beta, c + j);
}

}  // namespace

void SmallGemm(const SmallGemmShape& shape, float alpha, const float* a,
               const float* b, float beta, float* c) {
  Product(shape, alpha, a, b, beta, c);
}

}  // namespace comera::kernels
