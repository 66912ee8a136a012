// Adds, scales, sums and transposes vectors and matrices.
#include <algorithm>
#include <cstring>

#include "common/status_macros.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

COMERA_CLONES
void AddScaled(float alpha, const float* __restrict x, float* __restrict y,
               int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += alpha * x[i];
}

COMERA_CLONES
void Multiply(float alpha, float* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= alpha;
}

// out (c, b) = in (b, c) transposed, in tiles that stay in the first cache.
void Transpose(int64_t b, int64_t c, const float* in, float* out) {
  constexpr int64_t kTile = 16;
  for (int64_t j0 = 0; j0 < c; j0 += kTile) {
    const int64_t j1 = std::min(j0 + kTile, c);
    for (int64_t i0 = 0; i0 < b; i0 += kTile) {
      const int64_t i1 = std::min(i0 + kTile, b);
      for (int64_t j = j0; j < j1; ++j) {
        for (int64_t i = i0; i < i1; ++i) out[j * b + i] = in[i * c + j];
      }
    }
  }
}

}  // namespace

absl::Status CpuBackend::Axpy(float alpha, ConstVector x, Vector y) {
  RETURN_IF_ERROR(CheckVector("Axpy", "x", x, y.size));
  RETURN_IF_ERROR(CheckMemory("Axpy", "y", y.data, y.size));
  ParallelElements(threads_, y.size, 1, [&](int64_t begin, int64_t end) {
    AddScaled(alpha, x.data + begin, y.data + begin, end - begin);
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::Scale(float alpha, Vector x) {
  RETURN_IF_ERROR(CheckMemory("Scale", "x", x.data, x.size));
  ParallelElements(threads_, x.size, 1, [&](int64_t begin, int64_t end) {
    Multiply(alpha, x.data + begin, end - begin);
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::ScaleByCount(float alpha, const float* count,
                                      Vector x) {
  RETURN_IF_ERROR(CheckMemory("ScaleByCount", "count", count, 1));
  return Scale(alpha / std::max(1.0f, *count), x);
}

absl::Status CpuBackend::AddBias(ConstVector bias, Matrix y) {
  RETURN_IF_ERROR(CheckMatrix("AddBias", "y", y));
  RETURN_IF_ERROR(CheckVector("AddBias", "bias", bias, y.cols));
  ParallelRanges(threads_, y.rows, y.cols, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      AddScaled(1, bias.data, y.data + i * y.stride, y.cols);
    }
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::BiasGradient(ConstMatrix grad_y, Vector grad_bias) {
  RETURN_IF_ERROR(CheckMatrix("BiasGradient", "grad_y", grad_y));
  RETURN_IF_ERROR(
      CheckVector("BiasGradient", "grad_bias", grad_bias, grad_y.cols));
  const int64_t blocks = ReductionBlocks(grad_y.rows);
  const int64_t cols = grad_y.cols;
  float* partial = Scratch<float>(blocks * cols);
  ParallelRanges(threads_, blocks, grad_y.rows * cols / blocks,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t block = begin; block < end; ++block) {
                     const int64_t first = grad_y.rows * block / blocks;
                     const int64_t last = grad_y.rows * (block + 1) / blocks;
                     float* sums = partial + block * cols;
                     std::fill(sums, sums + cols, 0.0f);
                     for (int64_t i = first; i < last; ++i) {
                       AddScaled(1, grad_y.data + i * grad_y.stride, sums,
                                 cols);
                     }
                   }
                 });
  AddColumnSums(partial, blocks, cols, cols, grad_bias.data);
  return absl::OkStatus();
}

absl::Status CpuBackend::SwapMiddleAxes(int64_t a, int64_t b, int64_t c,
                                        int64_t d, const float* in,
                                        float* out) {
  if (a < 0 || b < 0 || c < 0 || d < 0) {
    return absl::InvalidArgumentError("SwapMiddleAxes: negative size");
  }
  const int64_t size = a * b * c * d;
  RETURN_IF_ERROR(CheckMemory("SwapMiddleAxes", "in", in, size));
  RETURN_IF_ERROR(CheckMemory("SwapMiddleAxes", "out", out, size));
  if (size == 0) return absl::OkStatus();
  if (d == 1) {
    ParallelRanges(threads_, a, b * c, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Transpose(b, c, in + i * b * c, out + i * b * c);
      }
    });
    return absl::OkStatus();
  }
  ParallelRanges(threads_, a * c, b * d, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* from = in + (i / c) * b * c * d + (i % c) * d;
      float* to = out + i * b * d;
      for (int64_t j = 0; j < b; ++j) {
        std::memcpy(to + j * d, from + j * c * d, d * sizeof(float));
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace comera::kernels
