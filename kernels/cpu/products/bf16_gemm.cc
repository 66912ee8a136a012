// Multiplies matrices in bfloat16 through oneDNN primitives.
#include "kernels/cpu/products/bf16_gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace comera::kernels {
namespace {

// Rows, columns and inner size from which a product of one thread takes less
// time than in float32, conversion included (tests/bench:ops, BM_GemmBf16):
// at 64 about 0.7 of it, at 30, where the ranks are, as long or longer.
constexpr int64_t kLeastExtent = 64;

COMERA_CLONES
void ToBf16(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    // Rounds to nearest, ties to even. A NaN whose fraction is all ones in the
    // upper half would overflow to a zero; it is kept a NaN.
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    y[i] = static_cast<uint16_t>((nan ? bits | 0x400000 : rounded) >> 16);
  }
}

void Convert(ConstMatrix m, uint16_t* to) {
  const bool contiguous = m.stride == m.cols || m.rows == 1;
  ParallelRuns(omp_get_max_threads(), m.rows, m.cols, contiguous, 1,
               [&](int64_t row, int64_t column, int64_t count) {
                 ToBf16(m.data + row * m.stride + column,
                        to + row * m.cols + column, count);
               });
}

}  // namespace

bool Bf16Gemm::Supported() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
         dnnl_cpu_isa_avx512_core_bf16;
}

bool Bf16Gemm::Pays(int64_t m, int64_t n, int64_t k) {
  static const bool supported = Supported();
  return supported && std::min({m, n, k}) >= kLeastExtent;
}

absl::Status Bf16Gemm::Run(bool transpose_a, bool transpose_b, ConstMatrix a,
                           ConstMatrix b, float beta, Matrix c) {
  MatmulShape shape;
  shape.operands = dnnl::memory::data_type::bf16;
  shape.transpose_a = transpose_a;
  shape.transpose_b = transpose_b;
  shape.m = c.rows;
  shape.n = c.cols;
  shape.k = transpose_a ? a.rows : a.cols;
  shape.c_stride = c.stride;
  shape.beta = beta;
  try {
    auto* narrow_a = static_cast<uint16_t*>(
        a_.AtLeast(a.rows * a.cols * int64_t{sizeof(uint16_t)}));
    auto* narrow_b = static_cast<uint16_t*>(
        b_.AtLeast(b.rows * b.cols * int64_t{sizeof(uint16_t)}));
    Convert(a, narrow_a);
    Convert(b, narrow_b);
    primitives_.Run(shape, narrow_a, narrow_b, c.data);
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("bfloat16 matmul(m=", c.rows,
                                            ", n=", c.cols, ", k=", shape.k,
                                            ") failed: ", error.message));
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
