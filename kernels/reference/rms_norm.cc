// Defines normalisation by the root mean square of a row, in double.
#include "kernels/reference/rms_norm.h"

#include <cmath>

namespace comera::kernels::reference {

void RmsNorm(const DoubleMatrix& x, const DoubleMatrix& gamma, double epsilon,
             DoubleMatrix* normalised, DoubleMatrix* inverse_deviation,
             DoubleMatrix* y) {
  for (int64_t i = 0; i < x.rows; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < x.cols; ++j) squares += x.at(i, j) * x.at(i, j);
    const double mean = squares / static_cast<double>(x.cols);
    (*inverse_deviation)[i] = 1 / std::sqrt(mean + epsilon);
    for (int64_t j = 0; j < x.cols; ++j) {
      normalised->at(i, j) = x.at(i, j) * (*inverse_deviation)[i];
      y->at(i, j) = normalised->at(i, j) * gamma[j];
    }
  }
}

void RmsNormBackward(const DoubleMatrix& grad_y, const DoubleMatrix& normalised,
                     const DoubleMatrix& inverse_deviation,
                     const DoubleMatrix& gamma, DoubleMatrix* grad_x,
                     DoubleMatrix* grad_gamma) {
  for (int64_t i = 0; i < grad_y.rows; ++i) {
    double slope = 0;
    for (int64_t j = 0; j < grad_y.cols; ++j) {
      slope += grad_y.at(i, j) * gamma[j] * normalised.at(i, j) /
               static_cast<double>(grad_y.cols);
      (*grad_gamma)[j] += grad_y.at(i, j) * normalised.at(i, j);
    }
    for (int64_t j = 0; j < grad_y.cols; ++j) {
      grad_x->at(i, j) +=
          (grad_y.at(i, j) * gamma[j] - normalised.at(i, j) * slope) *
          inverse_deviation[i];
    }
  }
}

}  // namespace comera::kernels::reference
