// Multiplies tiles as the tensor cores do, their rounding included.
#include "host_cuda/mma.h"

#include <cmath>

#include "cuda_runtime.h"

namespace comera::fake_cuda {
namespace {

// Tensor cores cut what a float cannot hold off a sum, so that long sums drift
// towards 0: nobody's test should take them for rounded ones.
float CutOff(double x) {
  const float nearest = static_cast<float>(x);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(x)
             ? std::nextafter(nearest, 0.0f)
             : nearest;
}

template <int kInner>
void Multiply(const float (&a)[16][kInner], const float (&b)[kInner][8],
              void* const (&lanes)[32]) {
  double d[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto* lane = static_cast<const MmaRequest*>(lanes[l]);
    const int g = l / 4, t = l % 4;
    for (int i = 0; i < 4; ++i) {
      d[g + 8 * (i / 2)][2 * t + i % 2] = lane->d[i];
    }
  }
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < kInner; ++k) {
      const double x = a[i][k];
      for (int j = 0; j < 8; ++j) d[i][j] += x * b[k][j];
    }
  }
  for (int l = 0; l < 32; ++l) {
    const auto* lane = static_cast<const MmaRequest*>(lanes[l]);
    const int g = l / 4, t = l % 4;
    for (int i = 0; i < 4; ++i) {
      lane->d[i] = CutOff(d[g + 8 * (i / 2)][2 * t + i % 2]);
    }
  }
}

// The device reads the upper 19 bits of a word.
float Tf32(uint32_t bits) { return __uint_as_float(bits & 0xffffe000u); }

float LowBf16(uint32_t bits) { return __uint_as_float(bits << 16); }
float HighBf16(uint32_t bits) { return __uint_as_float(bits & 0xffff0000u); }

}  // namespace

void ResolveMmaTf32(void* const (&lanes)[32]) {
  float a[16][8], b[8][8];
  for (int l = 0; l < 32; ++l) {
    const auto* lane = static_cast<const MmaRequest*>(lanes[l]);
    const int g = l / 4, t = l % 4;
    for (int i = 0; i < 4; ++i) {
      a[g + 8 * (i % 2)][t + 4 * (i / 2)] = Tf32(lane->a[i]);
    }
    for (int i = 0; i < 2; ++i) b[t + 4 * i][g] = Tf32(lane->b[i]);
  }
  Multiply(a, b, lanes);
}

void ResolveMmaBf16(void* const (&lanes)[32]) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto* lane = static_cast<const MmaRequest*>(lanes[l]);
    const int g = l / 4, t = l % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
      a[row][column] = LowBf16(lane->a[i]);
      a[row][column + 1] = HighBf16(lane->a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      const int row = 2 * t + 8 * i;
      b[row][g] = LowBf16(lane->b[i]);
      b[row + 1][g] = HighBf16(lane->b[i]);
    }
  }
  Multiply(a, b, lanes);
}

}  // namespace comera::fake_cuda
