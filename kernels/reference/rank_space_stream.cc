// Defines the operations at the ends of a branch in rank space, in double.
#include "kernels/reference/rank_space_stream.h"

#include "kernels/reference/layer_norm.h"
#include "kernels/reference/linear.h"

namespace comera::kernels::reference {

void ExpandLayerNorm(const DropoutNumbers& dropout, const DoubleMatrix& t,
                     const DoubleMatrix& b, const DoubleMatrix& residual,
                     const DoubleMatrix& gamma, const DoubleMatrix& beta,
                     double epsilon, DoubleMatrix* normalised,
                     DoubleMatrix* inverse_deviation, DoubleMatrix* y) {
  ResidualLayerNorm(dropout, Product(t, b), &residual, gamma, beta, epsilon,
                    normalised, inverse_deviation, y);
}

void ExpandLayerNormBackward(
    const DropoutNumbers& dropout, const DoubleMatrix& t, const DoubleMatrix& b,
    const DoubleMatrix& grad_y, const DoubleMatrix& normalised,
    const DoubleMatrix& inverse_deviation, const DoubleMatrix& gamma,
    DoubleMatrix* grad_residual, DoubleMatrix* grad_t, DoubleMatrix* grad_b,
    DoubleMatrix* grad_gamma, DoubleMatrix* grad_beta) {
  DoubleMatrix grad_x(t.rows, b.cols), grad_sum(t.rows, b.cols);
  ResidualLayerNormBackward(dropout, grad_y, normalised, inverse_deviation,
                            gamma, &grad_x, &grad_sum, grad_gamma, grad_beta);
  *grad_residual = grad_sum;
  Gemm(true, false, 1, t, grad_x, 1, grad_b);
  // All rows of b but the bias.
  for (int64_t i = 0; i < grad_t->rows; ++i) {
    for (int64_t k = 0; k < grad_t->cols; ++k) {
      grad_t->at(i, k) = 0;
      for (int64_t j = 0; j < b.cols; ++j) {
        grad_t->at(i, k) += grad_x.at(i, j) * b.at(k, j);
      }
    }
  }
}

void ProjectBackward(const DoubleMatrix& x, const DoubleMatrix* gamma,
                     const DoubleMatrix* beta, const DoubleMatrix& grad_t,
                     const DoubleMatrix& a, DoubleMatrix* grad_a,
                     DoubleMatrix* grad_x) {
  DoubleMatrix input = x;
  if (gamma != nullptr) LayerNormOutput({}, x, *gamma, beta, &input);
  Gemm(true, false, 1, input, grad_t, 1, grad_a);
  Gemm(false, true, 1, grad_t, a, 1, grad_x);
}

}  // namespace comera::kernels::reference
