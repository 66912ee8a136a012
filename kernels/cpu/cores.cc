// Folds bond entries into cores, and computes norms and penalties of bonds.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

COMERA_CLONES
void FoldRows(ConstMatrix g, const float* d, float threshold, Matrix h,
              int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float* from = g.data + i * g.stride;
    float* to = h.data + i * h.stride;
#pragma omp simd
    for (int64_t k = 0; k < g.cols; ++k) {
      to[k] = from[k] * (d[k] > threshold ? d[k] : 0.0f);
    }
  }
}

COMERA_CLONES
void UnfoldRows(ConstMatrix g, const float* d, float threshold,
                ConstMatrix grad_h, Matrix grad_g, float* sums, int64_t begin,
                int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const float* value = g.data + i * g.stride;
    const float* grad = grad_h.data + i * grad_h.stride;
    float* to = grad_g.data + i * grad_g.stride;
#pragma omp simd
    for (int64_t k = 0; k < g.cols; ++k) {
      const float alive = d[k] > threshold ? grad[k] : 0.0f;
      to[k] += alive * d[k];
      sums[k] += alive * value[k];
    }
  }
}

}  // namespace

absl::Status CpuBackend::FoldCore(ConstMatrix g, ConstVector d, float threshold,
                                  Matrix h) {
  RETURN_IF_ERROR(CheckMatrix("FoldCore", "g", g));
  RETURN_IF_ERROR(CheckVector("FoldCore", "d", d, g.cols));
  RETURN_IF_ERROR(CheckMatrix("FoldCore", "h", h, g.rows, g.cols));
  ParallelRanges(threads_, g.rows, g.cols, [&](int64_t begin, int64_t end) {
    FoldRows(g, d.data, threshold, h, begin, end);
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::FoldCoreBackward(ConstMatrix g, ConstVector d,
                                          float threshold, ConstMatrix grad_h,
                                          Matrix grad_g, Vector grad_d) {
  constexpr char kOp[] = "FoldCoreBackward";
  RETURN_IF_ERROR(CheckMatrix(kOp, "g", g));
  RETURN_IF_ERROR(CheckVector(kOp, "d", d, g.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_h", grad_h, g.rows, g.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_g", grad_g, g.rows, g.cols));
  RETURN_IF_ERROR(CheckVector(kOp, "grad_d", grad_d, g.cols));
  const int64_t blocks = ReductionBlocks(g.rows);
  float* partial = Scratch<float>(blocks * g.cols);
  std::fill(partial, partial + blocks * g.cols, 0.0f);
  ParallelRanges(threads_, blocks, g.rows * g.cols / blocks,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     UnfoldRows(g, d.data, threshold, grad_h, grad_g,
                                partial + b * g.cols, g.rows * b / blocks,
                                g.rows * (b + 1) / blocks);
                   }
                 });
  AddColumnSums(partial, blocks, g.cols, g.cols, grad_d.data);
  return absl::OkStatus();
}

absl::Status CpuBackend::BondNorms(ConstVector parameters,
                                   absl::Span<const BondSpan> bonds,
                                   float threshold, float* l1, float* count) {
  RETURN_IF_ERROR(CheckBonds("BondNorms", parameters, bonds));
  RETURN_IF_ERROR(CheckMemory("BondNorms", "l1", l1, bonds.size()));
  RETURN_IF_ERROR(CheckMemory("BondNorms", "count", count, bonds.size()));
  for (size_t i = 0; i < bonds.size(); ++i) {
    double sum = 0;
    int64_t alive = 0;
    for (int64_t e = 0; e < bonds[i].size; ++e) {
      const float d = parameters.data[bonds[i].offset + e];
      if (d > threshold) {
        sum += d;
        ++alive;
      }
    }
    l1[i] = static_cast<float>(sum);
    count[i] = static_cast<float>(alive);
  }
  return absl::OkStatus();
}

absl::Status CpuBackend::RelaxedSizeGradient(const SizeBond* bonds,
                                             int64_t count, const float* l1,
                                             const float* counts, float factor,
                                             float* coefficient) {
  constexpr char kOp[] = "RelaxedSizeGradient";
  RETURN_IF_ERROR(CheckMemory(kOp, "bonds", bonds, count));
  RETURN_IF_ERROR(CheckMemory(kOp, "l1", l1, count));
  RETURN_IF_ERROR(CheckMemory(kOp, "counts", counts, count));
  RETURN_IF_ERROR(CheckMemory(kOp, "coefficient", coefficient, count));
  for (int64_t i = 0; i < count; ++i) {
    const SizeBond& bond = bonds[i];
    const bool gone = std::any_of(counts + bond.first, counts + bond.last,
                                  [](float alive) { return alive == 0; });
    const float left = bond.left < 0 ? 1 : l1[bond.left];
    const float right = bond.right < 0 ? 1 : l1[bond.right];
    coefficient[i] =
        gone ? 0 : factor * (bond.left_mode * left + bond.right_mode * right);
  }
  return absl::OkStatus();
}

absl::Status CpuBackend::AddBondGradient(ConstVector parameters,
                                         absl::Span<const BondSpan> bonds,
                                         const float* coefficient,
                                         float threshold, Vector gradients) {
  RETURN_IF_ERROR(CheckBonds("AddBondGradient", parameters, bonds));
  RETURN_IF_ERROR(
      CheckVector("AddBondGradient", "gradients", gradients, parameters.size));
  RETURN_IF_ERROR(CheckMemory("AddBondGradient", "coefficient", coefficient,
                              static_cast<int64_t>(bonds.size())));
  for (size_t i = 0; i < bonds.size(); ++i) {
    for (int64_t e = 0; e < bonds[i].size; ++e) {
      const int64_t at = bonds[i].offset + e;
      if (parameters.data[at] > threshold) gradients.data[at] += coefficient[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
