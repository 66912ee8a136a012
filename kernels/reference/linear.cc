// Defines products, sums and folds of cores, in double.
#include "kernels/reference/linear.h"

namespace comera::kernels::reference {

void Gemm(bool transpose_a, bool transpose_b, double alpha,
          const DoubleMatrix& a, const DoubleMatrix& b, double beta,
          DoubleMatrix* c) {
  const int64_t inner = transpose_a ? a.rows : a.cols;
  for (int64_t i = 0; i < c->rows; ++i) {
    for (int64_t j = 0; j < c->cols; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < inner; ++p) {
        sum += (transpose_a ? a.at(p, i) : a.at(i, p)) *
               (transpose_b ? b.at(j, p) : b.at(p, j));
      }
      // beta = 0 does not read c, which may hold anything.
      c->at(i, j) = alpha * sum + (beta == 0 ? 0 : beta * c->at(i, j));
    }
  }
}

DoubleMatrix Product(const DoubleMatrix& a, const DoubleMatrix& b) {
  DoubleMatrix c(a.rows, b.cols);
  Gemm(false, false, 1, a, b, 0, &c);
  return c;
}

void Axpy(double alpha, const DoubleMatrix& x, DoubleMatrix* y) {
  for (int64_t i = 0; i < x.size(); ++i) (*y)[i] += alpha * x[i];
}

void AddBias(const DoubleMatrix& bias, DoubleMatrix* y) {
  for (int64_t i = 0; i < y->rows; ++i) {
    for (int64_t j = 0; j < y->cols; ++j) y->at(i, j) += bias[j];
  }
}

void BiasGradient(const DoubleMatrix& grad_y, DoubleMatrix* grad_bias) {
  for (int64_t i = 0; i < grad_y.rows; ++i) {
    for (int64_t j = 0; j < grad_y.cols; ++j) {
      (*grad_bias)[j] += grad_y.at(i, j);
    }
  }
}

void SwapMiddleAxes(int64_t a, int64_t b, int64_t c, int64_t d,
                    const DoubleMatrix& in, DoubleMatrix* out) {
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t k = 0; k < c; ++k) {
        for (int64_t l = 0; l < d; ++l) {
          (*out)[((i * c + k) * b + j) * d + l] =
              in[((i * b + j) * c + k) * d + l];
        }
      }
    }
  }
}

void FoldCore(const DoubleMatrix& g, const DoubleMatrix& d, double threshold,
              DoubleMatrix* h) {
  for (int64_t i = 0; i < g.rows; ++i) {
    for (int64_t k = 0; k < g.cols; ++k) {
      h->at(i, k) = g.at(i, k) * (d[k] > threshold ? d[k] : 0);
    }
  }
}

void FoldCoreBackward(const DoubleMatrix& g, const DoubleMatrix& d,
                      double threshold, const DoubleMatrix& grad_h,
                      DoubleMatrix* grad_g, DoubleMatrix* grad_d) {
  for (int64_t i = 0; i < g.rows; ++i) {
    for (int64_t k = 0; k < g.cols; ++k) {
      if (!(d[k] > threshold)) continue;
      grad_g->at(i, k) += grad_h.at(i, k) * d[k];
      (*grad_d)[k] += grad_h.at(i, k) * g.at(i, k);
    }
  }
}

}  // namespace comera::kernels::reference
