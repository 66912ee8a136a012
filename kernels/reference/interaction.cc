// Defines the pairwise interaction of vectors, in double.
#include "kernels/reference/interaction.h"

namespace comera::kernels::reference {

void PairwiseInteraction(int64_t vectors, const DoubleMatrix& z,
                         DoubleMatrix* out) {
  const int64_t width = z.cols / vectors;
  for (int64_t row = 0; row < z.rows; ++row) {
    for (int64_t k = 0; k < width; ++k) out->at(row, k) = z.at(row, k);
    int64_t column = width;
    for (int64_t i = 0; i < vectors; ++i) {
      for (int64_t j = 0; j < i; ++j, ++column) {
        double sum = 0;
        for (int64_t k = 0; k < width; ++k) {
          sum += z.at(row, i * width + k) * z.at(row, j * width + k);
        }
        out->at(row, column) = sum;
      }
    }
  }
}

void PairwiseInteractionBackward(int64_t vectors, const DoubleMatrix& z,
                                 const DoubleMatrix& grad_out,
                                 DoubleMatrix* grad_z) {
  const int64_t width = z.cols / vectors;
  for (int64_t row = 0; row < z.rows; ++row) {
    for (int64_t k = 0; k < z.cols; ++k) {
      grad_z->at(row, k) = k < width ? grad_out.at(row, k) : 0;
    }
    int64_t column = width;
    for (int64_t i = 0; i < vectors; ++i) {
      for (int64_t j = 0; j < i; ++j, ++column) {
        for (int64_t k = 0; k < width; ++k) {
          const int64_t a = i * width + k, b = j * width + k;
          grad_z->at(row, a) += grad_out.at(row, column) * z.at(row, b);
          grad_z->at(row, b) += grad_out.at(row, column) * z.at(row, a);
        }
      }
    }
  }
}

}  // namespace comera::kernels::reference
