// Multiplies all pairs among the vectors of each row, and back.
#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

COMERA_CLONES
void ForwardRow(const float* z, int64_t vectors, int64_t width, float* out) {
  std::copy_n(z, width, out);
  out += width;
  for (int64_t i = 1; i < vectors; ++i) {
    const float* a = z + i * width;
    for (int64_t j = 0; j < i; ++j) {
      const float* b = z + j * width;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < width; ++k) sum += a[k] * b[k];
      *out++ = sum;
    }
  }
}

COMERA_CLONES
void BackwardRow(const float* z, const float* grad_out, int64_t vectors,
                 int64_t width, float* grad_z) {
  std::copy_n(grad_out, width, grad_z);
  std::fill_n(grad_z + width, (vectors - 1) * width, 0.0f);
  grad_out += width;
  for (int64_t i = 1; i < vectors; ++i) {
    const float* a = z + i * width;
    float* grad_a = grad_z + i * width;
    for (int64_t j = 0; j < i; ++j) {
      const float* b = z + j * width;
      float* grad_b = grad_z + j * width;
      const float g = *grad_out++;
#pragma omp simd
      for (int64_t k = 0; k < width; ++k) {
        grad_a[k] += g * b[k];
        grad_b[k] += g * a[k];
      }
    }
  }
}

}  // namespace

absl::Status CpuBackend::PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                             Matrix out) {
  RETURN_IF_ERROR(CheckInteraction("PairwiseInteraction", vectors, z, out));
  ParallelRanges(threads_, z.rows, vectors * z.cols,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     ForwardRow(z.data + i * z.stride, vectors,
                                z.cols / vectors, out.data + i * out.stride);
                   }
                 });
  return absl::OkStatus();
}

absl::Status CpuBackend::PairwiseInteractionBackward(int64_t vectors,
                                                     ConstMatrix z,
                                                     ConstMatrix grad_out,
                                                     Matrix grad_z) {
  constexpr char kOp[] = "PairwiseInteractionBackward";
  RETURN_IF_ERROR(CheckInteraction(kOp, vectors, z, grad_out));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_z", grad_z, z.rows, z.cols));
  ParallelRanges(
      threads_, z.rows, 2 * vectors * z.cols, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          BackwardRow(z.data + i * z.stride,
                      grad_out.data + i * grad_out.stride, vectors,
                      z.cols / vectors, grad_z.data + i * grad_z.stride);
        }
      });
  return absl::OkStatus();
}

}  // namespace comera::kernels
