// Turns the halves of each head by angles that grow with the row's position.
#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

// Simple elements that a sine and its cosine are worth.
constexpr int64_t kSineCost = 8;
// Pairs of columns whose sines and cosines are computed at a time.
constexpr int64_t kPairs = 64;

// Sines and cosines of position * frequency. In float an angle of some
// thousands would have lost its last digits, so that it is computed in double.
COMERA_CLONES
void SineRun(double position, const double* __restrict frequencies,
             float* __restrict sines, float* __restrict cosines, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    VectorSineCosine(position * frequencies[i], &sines[i], &cosines[i]);
  }
}

// (a, b) -> (a cos - b sin, b cos + a sin), with `sign` times the sine.
COMERA_CLONES
void TurnRun(const float* __restrict sines, const float* __restrict cosines,
             float sign, float* __restrict a, float* __restrict b, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float low = a[i], high = b[i];
    const float sine = sign * sines[i], cosine = cosines[i];
    a[i] = low * cosine - high * sine;
    b[i] = high * cosine + low * sine;
  }
}

void TurnRow(int32_t position, const double* frequencies, int64_t half,
             float sign, float* row, int64_t cols) {
  float sines[kPairs], cosines[kPairs];
  for (int64_t i = 0; i < half; i += kPairs) {
    const int64_t count = std::min(kPairs, half - i);
    SineRun(position, frequencies + i, sines, cosines, count);
    for (int64_t head = 0; head < cols; head += 2 * half) {
      float* a = row + head + i;
      TurnRun(sines, cosines, sign, a, a + half, count);
    }
  }
}

}  // namespace

absl::Status CpuBackend::Rotate(int64_t head_width, float theta, bool inverse,
                                ConstIndices positions, Matrix x) {
  RETURN_IF_ERROR(CheckRotate(head_width, theta, positions, x));
  if (x.rows == 0 || x.cols == 0) return absl::OkStatus();
  const int64_t half = head_width / 2;
  double* frequencies = Scratch<double>(half);
  for (int64_t i = 0; i < half; ++i) {
    frequencies[i] =
        std::pow(static_cast<double>(theta),
                 -static_cast<double>(i) / static_cast<double>(half));
  }
  const float sign = inverse ? -1.0f : 1.0f;
  ParallelRanges(threads_, x.rows, x.cols + kSineCost * half,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     TurnRow(positions.data[i], frequencies, half, sign,
                             x.data + i * x.stride, x.cols);
                   }
                 });
  return absl::OkStatus();
}

}  // namespace comera::kernels
