// Meaning of the linear algebra and core operations of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_LINEAR_H_
#define COMERA_KERNELS_REFERENCE_LINEAR_H_

#include <cstdint>

#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

void Gemm(bool transpose_a, bool transpose_b, double alpha,
          const DoubleMatrix& a, const DoubleMatrix& b, double beta,
          DoubleMatrix* c);
DoubleMatrix Product(const DoubleMatrix& a, const DoubleMatrix& b);
void Axpy(double alpha, const DoubleMatrix& x, DoubleMatrix* y);
void AddBias(const DoubleMatrix& bias, DoubleMatrix* y);
void BiasGradient(const DoubleMatrix& grad_y, DoubleMatrix* grad_bias);
void SwapMiddleAxes(int64_t a, int64_t b, int64_t c, int64_t d,
                    const DoubleMatrix& in, DoubleMatrix* out);
void FoldCore(const DoubleMatrix& g, const DoubleMatrix& d, double threshold,
              DoubleMatrix* h);
void FoldCoreBackward(const DoubleMatrix& g, const DoubleMatrix& d,
                      double threshold, const DoubleMatrix& grad_h,
                      DoubleMatrix* grad_g, DoubleMatrix* grad_d);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_LINEAR_H_
