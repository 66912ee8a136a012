// Defines the feed-forward layer between rank vectors, in double.
#include "kernels/reference/rank_space_ffn.h"

#include "kernels/reference/linear.h"
#include "kernels/reference/pointwise.h"

namespace comera::kernels::reference {

void RankSpaceFfn(const DoubleMatrix& t1, const DoubleMatrix& b1,
                  const DoubleMatrix& a2, DoubleMatrix* t2) {
  DoubleMatrix hidden(t1.rows, b1.cols);
  Gemm(false, false, 1, t1, b1, 0, &hidden);
  Activate(Activation::kGelu, hidden, &hidden);
  Gemm(false, false, 1, hidden, a2, 0, t2);
}

void RankSpaceFfnBackward(const DoubleMatrix& t1, const DoubleMatrix& b1,
                          const DoubleMatrix& a2, const DoubleMatrix& grad_t2,
                          DoubleMatrix* grad_t1, DoubleMatrix* grad_b1,
                          DoubleMatrix* grad_a2) {
  DoubleMatrix before(t1.rows, b1.cols), hidden(t1.rows, b1.cols);
  Gemm(false, false, 1, t1, b1, 0, &before);
  Activate(Activation::kGelu, before, &hidden);
  Gemm(true, false, 1, hidden, grad_t2, 1, grad_a2);
  DoubleMatrix grad(t1.rows, b1.cols);
  Gemm(false, true, 1, grad_t2, a2, 0, &grad);
  ActivateBackward(Activation::kGelu, before, grad, &grad);
  Gemm(true, false, 1, t1, grad, 1, grad_b1);
  // All rows of b1 but the bias.
  for (int64_t i = 0; i < grad_t1->rows; ++i) {
    for (int64_t k = 0; k < grad_t1->cols; ++k) {
      double sum = 0;
      for (int64_t j = 0; j < b1.cols; ++j) sum += grad.at(i, j) * b1.at(k, j);
      grad_t1->at(i, k) = sum;
    }
  }
}

}  // namespace comera::kernels::reference
