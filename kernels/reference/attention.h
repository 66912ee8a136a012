// Meaning of Attention of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_ATTENTION_H_
#define COMERA_KERNELS_REFERENCE_ATTENTION_H_

#include "kernels/backend.h"
#include "kernels/reference/matrix.h"
#include "kernels/reference/pointwise.h"

namespace comera::kernels::reference {

void Attention(const AttentionShape& shape, const DropoutNumbers& dropout,
               const DoubleMatrix& q, const DoubleMatrix& k,
               const DoubleMatrix& v, const DoubleMatrix& mask,
               DoubleMatrix* probabilities, DoubleMatrix* out);
void AttentionBackward(const AttentionShape& shape,
                       const DropoutNumbers& dropout, const DoubleMatrix& q,
                       const DoubleMatrix& k, const DoubleMatrix& v,
                       const DoubleMatrix& probabilities,
                       const DoubleMatrix& grad_out, DoubleMatrix* grad_q,
                       DoubleMatrix* grad_k, DoubleMatrix* grad_v);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_ATTENTION_H_
