// Formula: h = g * d where d > threshold, else 0, and its gradients; l1 and
// count of a bond's entries above the threshold; the gradient of the relaxed
// size by bonds, and its addition to the gradients.
// Shapes: g, h (left rank * mode, right rank), d (right rank); bonds are runs
// of a flat parameter buffer.
// Threads: one takes four columns of a core (device/map.h), a block 32 columns
// of grad_d (device/column_sums.h); a block takes a bond, or a thread one.
#include <cuda_runtime.h>

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/column_sums.h"
#include "kernels/cuda/device/map.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

struct FoldOp {
  static constexpr bool kUsesColumn = true;
  const float* d;
  float threshold;
  __device__ void Begin() {}
  __device__ float operator()(float g, int64_t column) const {
    const float rank = __ldg(d + column);
    return g * (rank > threshold ? rank : 0.0f);
  }
};

// Element of the sum that is grad_d; adds to grad_g on the way.
struct UnfoldElement {
  ConstMatrix g, grad_h;
  const float* d;
  float threshold;
  Matrix grad_g;
  __device__ float operator()(int64_t row, int64_t column) const {
    const float rank = __ldg(d + column);
    if (!(rank > threshold)) return 0;
    const float grad = grad_h.data[row * grad_h.stride + column];
    grad_g.data[row * grad_g.stride + column] += grad * rank;
    return grad * g.data[row * g.stride + column];
  }
};

// Bonds of one launch, as parameters of the kernel; a block to each.
constexpr int kMostBonds = 240;
struct Bonds {
  int64_t offset[kMostBonds];
  int64_t size[kMostBonds];
};
static_assert(sizeof(Bonds) <= 3900);

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    BondNormsKernel(const float* parameters, Bonds bonds, float threshold,
                    float* l1, float* count) {
  WaitForEarlierKernels();
  const float* const d = parameters + bonds.offset[blockIdx.x];
  double sum = 0;
  float alive = 0;
  for (int64_t e = threadIdx.x; e < bonds.size[blockIdx.x]; e += kThreads) {
    if (d[e] > threshold) {
      sum += d[e];
      alive += 1;
    }
  }
  sum = BlockSum(sum);
  alive = BlockSum(alive);
  if (threadIdx.x != 0) return;
  l1[blockIdx.x] = static_cast<float>(sum);
  count[blockIdx.x] = alive;
}

__global__ void __launch_bounds__(kThreads)
    AddBondGradientKernel(const float* parameters, Bonds bonds,
                          const float* coefficient, float threshold,
                          float* gradients) {
  WaitForEarlierKernels();
  const int64_t first = bonds.offset[blockIdx.x];
  const float add = coefficient[blockIdx.x];
  for (int64_t e = threadIdx.x; e < bonds.size[blockIdx.x]; e += kThreads) {
    if (parameters[first + e] > threshold) gradients[first + e] += add;
  }
}

__global__ void __launch_bounds__(kThreads)
    RelaxedSizeKernel(const SizeBond* bonds, int64_t count, const float* l1,
                      const float* counts, float factor, float* coefficient) {
  WaitForEarlierKernels();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const SizeBond bond = bonds[i];
  bool gone = false;
  for (int32_t b = bond.first; b < bond.last; ++b) {
    gone = gone || counts[b] == 0;
  }
  const float left = bond.left < 0 ? 1.0f : l1[bond.left];
  const float right = bond.right < 0 ? 1.0f : l1[bond.right];
  coefficient[i] =
      gone ? 0 : factor * (bond.left_mode * left + bond.right_mode * right);
}

// Calls f(bonds, first, count) for runs of bonds that one launch takes.
template <typename F>
absl::Status ForBonds(absl::Span<const BondSpan> spans, const F& f) {
  for (size_t first = 0; first < spans.size(); first += kMostBonds) {
    Bonds bonds = {};
    const size_t count =
        std::min(spans.size() - first, static_cast<size_t>(kMostBonds));
    for (size_t i = 0; i < count; ++i) {
      bonds.offset[i] = spans[first + i].offset;
      bonds.size[i] = spans[first + i].size;
    }
    RETURN_IF_ERROR(f(bonds, first, static_cast<unsigned>(count)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaBackend::FoldCore(ConstMatrix g, ConstVector d,
                                   float threshold, Matrix h) {
  RETURN_IF_ERROR(CheckMatrix("FoldCore", "g", g));
  RETURN_IF_ERROR(CheckVector("FoldCore", "d", d, g.cols));
  RETURN_IF_ERROR(CheckMatrix("FoldCore", "h", h, g.rows, g.cols));
  if (together_depth_ > 0) {
    together_.AddFold(g, d, threshold, h);
    return absl::OkStatus();
  }
  return Map<1>("FoldCore", stream_, {{g}}, h, FoldOp{d.data, threshold});
}

absl::Status CudaBackend::FoldCoreBackward(ConstMatrix g, ConstVector d,
                                           float threshold, ConstMatrix grad_h,
                                           Matrix grad_g, Vector grad_d) {
  constexpr char kOp[] = "FoldCoreBackward";
  RETURN_IF_ERROR(CheckMatrix(kOp, "g", g));
  RETURN_IF_ERROR(CheckVector(kOp, "d", d, g.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_h", grad_h, g.rows, g.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_g", grad_g, g.rows, g.cols));
  RETURN_IF_ERROR(CheckVector(kOp, "grad_d", grad_d, g.cols));
  if (together_depth_ > 0) {
    together_.AddUnfold(g, d, threshold, grad_h, grad_g, grad_d);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(float* const scratch,
                   Scratch<float>(ColumnSumFloats(g.rows, g.cols)));
  return AddColumnSums(kOp, stream_, g.rows, g.cols,
                       UnfoldElement{g, grad_h, d.data, threshold, grad_g},
                       scratch, grad_d.data);
}

absl::Status CudaBackend::BondNorms(ConstVector parameters,
                                    absl::Span<const BondSpan> bonds,
                                    float threshold, float* l1, float* count) {
  constexpr char kOp[] = "BondNorms";
  RETURN_IF_ERROR(CheckBonds(kOp, parameters, bonds));
  RETURN_IF_ERROR(CheckMemory(kOp, "l1", l1, bonds.size()));
  RETURN_IF_ERROR(CheckMemory(kOp, "count", count, bonds.size()));
  return ForBonds(bonds, [&](const Bonds& run, size_t first, unsigned n) {
    return Launch(kOp, Shape(n, kThreads), BondNormsKernel, parameters.data,
                  run, threshold, l1 + first, count + first);
  });
}

absl::Status CudaBackend::RelaxedSizeGradient(const SizeBond* bonds,
                                              int64_t count, const float* l1,
                                              const float* counts, float factor,
                                              float* coefficient) {
  constexpr char kOp[] = "RelaxedSizeGradient";
  RETURN_IF_ERROR(CheckMemory(kOp, "bonds", bonds, count));
  RETURN_IF_ERROR(CheckMemory(kOp, "l1", l1, count));
  RETURN_IF_ERROR(CheckMemory(kOp, "counts", counts, count));
  RETURN_IF_ERROR(CheckMemory(kOp, "coefficient", coefficient, count));
  return Launch(kOp, Shape(Blocks(count, kThreads), kThreads),
                RelaxedSizeKernel, bonds, count, l1, counts, factor,
                coefficient);
}

absl::Status CudaBackend::AddBondGradient(ConstVector parameters,
                                          absl::Span<const BondSpan> bonds,
                                          const float* coefficient,
                                          float threshold, Vector gradients) {
  constexpr char kOp[] = "AddBondGradient";
  RETURN_IF_ERROR(CheckBonds(kOp, parameters, bonds));
  RETURN_IF_ERROR(CheckVector(kOp, "gradients", gradients, parameters.size));
  RETURN_IF_ERROR(CheckMemory(kOp, "coefficient", coefficient,
                              static_cast<int64_t>(bonds.size())));
  return ForBonds(bonds, [&](const Bonds& run, size_t first, unsigned n) {
    return Launch(kOp, Shape(n, kThreads), AddBondGradientKernel,
                  parameters.data, run, coefficient + first, threshold,
                  gradients.data);
  });
}

}  // namespace comera::kernels
