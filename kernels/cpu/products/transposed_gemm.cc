// Multiplies by a transposed matrix through oneDNN's matmul primitive.
#include "kernels/cpu/products/transposed_gemm.h"

#include <omp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/parallel.h"

namespace comera::kernels {
namespace {

// On two cores with AVX-512 (tests/bench:ops, BM_Gemm, with and without this)
// 2.8 times as fast as dnnl_sgemm at 128 x 128 x 1024, 2.3 at 88 x 1920 x 1024,
// 1.3 at 512 x 128 x 1024; as fast at 4096 x 64 x 768, and slower at 2048 x
// 3072 x 768 or where a sum has few terms.
constexpr int64_t kMostRows = 1024;
constexpr int64_t kLeastTerms = 256;
constexpr int64_t kLeastColumns = 32;
// Multiply-adds below which a primitive that is used a few times only takes
// longer to make than it saves.
constexpr int64_t kLeastWork = int64_t{1} << 22;

// oneDNN has the kernels for AVX-512 only (2.6), or they were measured there
// only (3).
bool HasKernels() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) ==
         dnnl_cpu_isa_avx512_core;
}

bool Packed(ConstMatrix m) { return m.stride == m.cols; }

}  // namespace

bool TransposedGemm::Pays(int64_t m, int64_t n, int64_t k) {
  static const bool has_kernels = HasKernels();
  return has_kernels && m <= kMostRows && k >= kLeastTerms &&
         n >= kLeastColumns && m * n * k >= kLeastWork;
}

absl::StatusOr<bool> TransposedGemm::Run(ConstMatrix a, ConstMatrix b,
                                         float beta, Matrix c) {
  // The kernels write packed rows only.
  const bool apart = c.stride != c.cols;
  if (!Packed(a) || !Packed(b) || (apart && beta != 0)) return false;
  MatmulShape shape;
  shape.transpose_b = true;
  shape.m = c.rows;
  shape.n = shape.c_stride = c.cols;
  shape.k = a.cols;
  shape.beta = beta;
  try {
    if (!primitives_.HasBlockKernel(shape)) return false;
    float* to = c.data;
    if (apart) {
      to = static_cast<float*>(
          c_.AtLeast(c.rows * c.cols * int64_t{sizeof(float)}));
    }
    primitives_.Run(shape, a.data, b.data, to);
    if (!apart) return true;
    ParallelRanges(omp_get_max_threads(), c.rows, c.cols,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const float* row = to + i * c.cols;
                       std::copy(row, row + c.cols, c.data + i * c.stride);
                     }
                   });
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("matmul(m=", c.rows, ", n=", c.cols,
                                            ", k=", a.cols,
                                            ") failed: ", error.message));
  }
  return true;
}

}  // namespace comera::kernels
