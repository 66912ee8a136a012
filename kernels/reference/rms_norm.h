// Meaning of RmsNorm of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_RMS_NORM_H_
#define COMERA_KERNELS_REFERENCE_RMS_NORM_H_

#include "kernels/reference/matrix.h"

namespace comera::kernels::reference {

void RmsNorm(const DoubleMatrix& x, const DoubleMatrix& gamma, double epsilon,
             DoubleMatrix* normalised, DoubleMatrix* inverse_deviation,
             DoubleMatrix* y);
// grad_x += and grad_gamma +=.
void RmsNormBackward(const DoubleMatrix& grad_y, const DoubleMatrix& normalised,
                     const DoubleMatrix& inverse_deviation,
                     const DoubleMatrix& gamma, DoubleMatrix* grad_x,
                     DoubleMatrix* grad_gamma);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_RMS_NORM_H_
