// Meaning of ResidualLayerNorm of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_LAYER_NORM_H_
#define COMERA_KERNELS_REFERENCE_LAYER_NORM_H_

#include "kernels/reference/matrix.h"
#include "kernels/reference/pointwise.h"

namespace comera::kernels::reference {

// A null residual is 0.
void ResidualLayerNorm(const DropoutNumbers& dropout, const DoubleMatrix& x,
                       const DoubleMatrix* residual, const DoubleMatrix& gamma,
                       const DoubleMatrix& beta, double epsilon,
                       DoubleMatrix* normalised,
                       DoubleMatrix* inverse_deviation, DoubleMatrix* y);
// A null beta is 0.
void LayerNormOutput(const DropoutNumbers& dropout,
                     const DoubleMatrix& normalised, const DoubleMatrix& gamma,
                     const DoubleMatrix* beta, DoubleMatrix* y);
void ResidualLayerNormBackward(const DropoutNumbers& dropout,
                               const DoubleMatrix& grad_y,
                               const DoubleMatrix& normalised,
                               const DoubleMatrix& inverse_deviation,
                               const DoubleMatrix& gamma, DoubleMatrix* grad_x,
                               DoubleMatrix* grad_residual,
                               DoubleMatrix* grad_gamma,
                               DoubleMatrix* grad_beta);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_LAYER_NORM_H_
