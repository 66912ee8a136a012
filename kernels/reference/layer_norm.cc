// Defines layer normalisation with dropout and residual, in double.
#include "kernels/reference/layer_norm.h"

#include <cmath>

namespace comera::kernels::reference {

void ResidualLayerNorm(const DropoutNumbers& dropout, const DoubleMatrix& x,
                       const DoubleMatrix* residual, const DoubleMatrix& gamma,
                       const DoubleMatrix& beta, double epsilon,
                       DoubleMatrix* normalised,
                       DoubleMatrix* inverse_deviation, DoubleMatrix* y) {
  const int64_t n = x.cols;
  for (int64_t i = 0; i < x.rows; ++i) {
    std::vector<double> sum(n);
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum[j] = x.at(i, j) * DropoutScale(dropout, i, j) +
               (residual == nullptr ? 0 : residual->at(i, j));
      mean += sum[j] / static_cast<double>(n);
    }
    for (int64_t j = 0; j < n; ++j) {
      variance += (sum[j] - mean) * (sum[j] - mean) / static_cast<double>(n);
    }
    (*inverse_deviation)[i] = 1 / std::sqrt(variance + epsilon);
    for (int64_t j = 0; j < n; ++j) {
      normalised->at(i, j) = (sum[j] - mean) * (*inverse_deviation)[i];
      y->at(i, j) = normalised->at(i, j) * gamma[j] + beta[j];
    }
  }
}

void LayerNormOutput(const DropoutNumbers& dropout,
                     const DoubleMatrix& normalised, const DoubleMatrix& gamma,
                     const DoubleMatrix* beta, DoubleMatrix* y) {
  for (int64_t i = 0; i < normalised.rows; ++i) {
    for (int64_t j = 0; j < normalised.cols; ++j) {
      const double shift = beta == nullptr ? 0 : (*beta)[j];
      y->at(i, j) = (normalised.at(i, j) * gamma[j] + shift) *
                    DropoutScale(dropout, i, j);
    }
  }
}

void ResidualLayerNormBackward(const DropoutNumbers& dropout,
                               const DoubleMatrix& grad_y,
                               const DoubleMatrix& normalised,
                               const DoubleMatrix& inverse_deviation,
                               const DoubleMatrix& gamma, DoubleMatrix* grad_x,
                               DoubleMatrix* grad_residual,
                               DoubleMatrix* grad_gamma,
                               DoubleMatrix* grad_beta) {
  const double n = static_cast<double>(grad_y.cols);
  for (int64_t i = 0; i < grad_y.rows; ++i) {
    double mean = 0, slope = 0;
    for (int64_t j = 0; j < grad_y.cols; ++j) {
      const double g = grad_y.at(i, j) * gamma[j];
      mean += g / n;
      slope += g * normalised.at(i, j) / n;
      (*grad_gamma)[j] += grad_y.at(i, j) * normalised.at(i, j);
      (*grad_beta)[j] += grad_y.at(i, j);
    }
    for (int64_t j = 0; j < grad_y.cols; ++j) {
      const double grad =
          (grad_y.at(i, j) * gamma[j] - mean - normalised.at(i, j) * slope) *
          inverse_deviation[i];
      grad_residual->at(i, j) = grad;
      grad_x->at(i, j) = grad * DropoutScale(dropout, i, j);
    }
  }
}

}  // namespace comera::kernels::reference
