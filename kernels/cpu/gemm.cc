// Multiplies matrices, by oneDNN or by the loops for small and for thin ones.
#include <dnnl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/small_gemm.h"
#include "kernels/cpu/products/thin_gemm.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

// Multiply-adds below which the own loop is faster than dnnl_sgemm, which
// packs and may start threads (tests/bench:ops, BM_Gemm).
constexpr int64_t kSmallProduct = 32768;

// Multiply-adds below which a second thread takes longer to wake than to help.
constexpr int64_t kSerialProduct = 1 << 20;

// The old values of c times beta, for an empty inner size.
void ScaleOld(float beta, Matrix c) {
  for (int64_t i = 0; i < c.rows; ++i) {
    float* row = c.data + i * c.stride;
    for (int64_t j = 0; j < c.cols; ++j) row[j] = beta == 0 ? 0 : beta * row[j];
  }
}

// A matrix of one row may come with any stride; oneDNN wants at least the
// columns.
int64_t LeadingDimension(ConstMatrix m) {
  return std::max<int64_t>({m.stride, m.cols, 1});
}

// c = alpha * op(a) op(b) + beta * c for shapes that fit.
absl::Status GemmCall(bool transpose_a, bool transpose_b, float alpha,
                      ConstMatrix a, ConstMatrix b, float beta, Matrix c) {
  const int64_t m = c.rows, n = c.cols;
  const int64_t k = transpose_a ? a.rows : a.cols;
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0 || alpha == 0) {
    ScaleOld(beta, c);
    return absl::OkStatus();
  }
  if (!transpose_b && m * n * k <= kSmallProduct) {
    SmallGemm({m, n, k, transpose_a ? 1 : a.stride, transpose_a ? a.stride : 1,
               b.stride, c.stride},
              alpha, a.data, b.data, beta, c.data);
    return absl::OkStatus();
  }
  if (ThinGemmPays(transpose_b, m, n) && !(transpose_a && transpose_b)) {
    ThinGemm({m, n, k, transpose_a ? 1 : a.stride, transpose_a ? a.stride : 1,
              b.stride, c.stride},
             transpose_b, alpha, a.data, b.data, beta, c.data,
             omp_in_parallel() ? 1 : omp_get_max_threads());
    return absl::OkStatus();
  }
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                 alpha, a.data, LeadingDimension(a), b.data,
                 LeadingDimension(b), beta, c.data, LeadingDimension(c));
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("dnnl_sgemm(m=", m, ", n=", n,
                                          ", k=", k, ") failed: ", status));
}

}  // namespace

bool CpuHasBf16() { return Bf16Gemm::Supported(); }

absl::Status CpuBackend::Gemm(bool transpose_a, bool transpose_b, float alpha,
                              ConstMatrix a, ConstMatrix b, float beta,
                              Matrix c) {
  const int64_t k = transpose_a ? a.rows : a.cols;
  RETURN_IF_ERROR(CheckMatrix("Gemm", "c", c));
  RETURN_IF_ERROR(CheckMatrix("Gemm", "a", a, transpose_a ? k : c.rows,
                              transpose_a ? c.rows : k));
  RETURN_IF_ERROR(CheckMatrix("Gemm", "b", b, transpose_b ? c.cols : k,
                              transpose_b ? k : c.cols));
  const bool serial = c.rows * c.cols * k < kSerialProduct;
  ScopedThreads threads(serial ? 1 : threads_);
  if (bf16_ != nullptr && alpha == 1 && Bf16Gemm::Pays(c.rows, c.cols, k)) {
    return bf16_->Run(transpose_a, transpose_b, a, b, beta, c);
  }
  if (!transpose_a && transpose_b && alpha == 1 &&
      TransposedGemm::Pays(c.rows, c.cols, k)) {
    ASSIGN_OR_RETURN(const bool done, transposed_.Run(a, b, beta, c));
    if (done) return absl::OkStatus();
  }
  return GemmCall(transpose_a, transpose_b, alpha, a, b, beta, c);
}

}  // namespace comera::kernels
