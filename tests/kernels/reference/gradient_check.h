// Compares gradients with central differences.
#ifndef COMERA_TESTS_KERNELS_REFERENCE_GRADIENT_CHECK_H_
#define COMERA_TESTS_KERNELS_REFERENCE_GRADIENT_CHECK_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

using Inputs = std::vector<DoubleMatrix>;

// Values in [-1, 1).
inline DoubleMatrix Random(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  DoubleMatrix m(rows, cols);
  for (double& value : m.values) value = random() * 0x1p-31 - 1;
  return m;
}

// A loss: the output weighted by fixed numbers, which are its gradient.
inline double Weighted(const DoubleMatrix& out, const DoubleMatrix& weights) {
  double sum = 0;
  for (int64_t i = 0; i < out.size(); ++i) sum += out[i] * weights[i];
  return sum;
}

// Expects gradients[k] to be the derivative of `loss` by inputs[k], within the
// error of central differences.
inline void CheckGradients(Inputs inputs,
                           const std::function<double(const Inputs&)>& loss,
                           const Inputs& gradients) {
  constexpr double kStep = 1e-5;
  for (size_t k = 0; k < gradients.size(); ++k) {
    for (int64_t i = 0; i < inputs[k].size(); ++i) {
      const double before = inputs[k][i];
      inputs[k][i] = before + kStep;
      const double above = loss(inputs);
      inputs[k][i] = before - kStep;
      const double slope = (above - loss(inputs)) / (2 * kStep);
      inputs[k][i] = before;
      ASSERT_NEAR(gradients[k][i], slope, 1e-7 * (1 + std::fabs(slope)))
          << "input " << k << ", entry " << i;
    }
  }
}

}  // namespace comera::kernels::reference

#endif  // COMERA_TESTS_KERNELS_REFERENCE_GRADIENT_CHECK_H_
