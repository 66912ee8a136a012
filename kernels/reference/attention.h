// Meaning of the kinds of attention of kernels/backend.h.
#ifndef COMERA_KERNELS_REFERENCE_ATTENTION_H_
#define COMERA_KERNELS_REFERENCE_ATTENTION_H_

#include "kernels/backend.h"
#include "kernels/reference/matrix.h"
#include "kernels/reference/pointwise.h"

namespace comera::kernels::reference {

// offsets: whole numbers (1, sequences + 1); log_sum (heads, tokens).
void Attention(const AttentionShape& shape, const DropoutNumbers& dropout,
               const DoubleMatrix& offsets, const DoubleMatrix& q,
               const DoubleMatrix& k, const DoubleMatrix& v,
               DoubleMatrix* log_sum, DoubleMatrix* out);
void AttentionBackward(const AttentionShape& shape,
                       const DropoutNumbers& dropout,
                       const DoubleMatrix& offsets, const DoubleMatrix& q,
                       const DoubleMatrix& k, const DoubleMatrix& v,
                       const DoubleMatrix& log_sum,
                       const DoubleMatrix& grad_out, DoubleMatrix* grad_q,
                       DoubleMatrix* grad_k, DoubleMatrix* grad_v);

// first, count: whole numbers (1, rows of q).
void CachedAttention(const CachedAttentionShape& shape,
                     const DoubleMatrix& first, const DoubleMatrix& count,
                     const DoubleMatrix& q, const DoubleMatrix& keys,
                     const DoubleMatrix& values, DoubleMatrix* out);

struct RankSpaceInputs {
  DoubleMatrix q, k, v;  // with their columns of ones
  DoubleMatrix c, e;
};
void RankSpaceAttention(const RankSpaceAttentionShape& shape,
                        const DropoutNumbers& dropout,
                        const DoubleMatrix& offsets,
                        const RankSpaceInputs& inputs, DoubleMatrix* log_sum,
                        DoubleMatrix* out);
struct RankSpaceGradients {
  DoubleMatrix q, k, v;  // without
  DoubleMatrix c, e;
};
void RankSpaceAttentionBackward(const RankSpaceAttentionShape& shape,
                                const DropoutNumbers& dropout,
                                const DoubleMatrix& offsets,
                                const RankSpaceInputs& inputs,
                                const DoubleMatrix& log_sum,
                                const DoubleMatrix& grad_out,
                                RankSpaceGradients* gradients);

}  // namespace comera::kernels::reference

#endif  // COMERA_KERNELS_REFERENCE_ATTENTION_H_
