// One head of one sequence, block-wise over queries: what ordinary and
// rank-space attention share. Everything lies in the nearest caches; nothing
// of size length x length is kept, however long the sequence.
#ifndef COMERA_KERNELS_CPU_ATTENTION_CORE_H_
#define COMERA_KERNELS_CPU_ATTENTION_CORE_H_

#include <cstdint>

#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/products/panel_gemm.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Whole vectors of 16, so that tiles have no rest.
inline int64_t PaddedLength(int64_t n) { return (n + 15) / 16 * 16; }

// The dropout of one head: element (query i, key j) is row
// mask.Row(first_row + i) * heads + head, column j.
struct HeadDropout {
  const DropoutMask& mask;
  int64_t first_row = 0;
  int64_t heads = 1;
  int64_t head = 0;
};

// With scores S = q keys_t and P = softmax(S), W = dropout(P) is applied to
// values (length, v); q (length, w). keys_t is (w, PaddedLength(length)),
// values_t (v, PaddedLength(length)), columns past the length anything finite.
struct HeadInputs {
  ConstMatrix q;
  const float* keys_t = nullptr;  // times whatever S is scaled by
  // A query sees the keys up to its own place; P is 0 for those behind it,
  // which cost nothing where they fill whole blocks.
  bool causal = false;
};

// Floats of scratch for sequences of up to max_length.
int64_t HeadScratchFloats(int64_t max_length);

// out (length, v) = or, if `accumulate`, += W values; log_sum (length) =
// log sum exp of the rows of S.
void HeadForward(const HeadInputs& in, const HeadDropout& dropout,
                 ConstMatrix values, bool accumulate, Matrix out,
                 float* log_sum, float* scratch);

struct HeadGradients {
  Matrix q;                        // (length, w) =
  Matrix keys;                     // (length, w)
  Matrix values;                   // (length, v)
  bool accumulate_keys = false;    // keys += instead of =
  bool accumulate_values = false;  // likewise
};
// S is computed again, P = exp(S - log_sum). The gradient of S, times `factor`,
// meets `keys` (length, w) for q and q for keys.
void HeadBackward(const HeadInputs& in, const HeadDropout& dropout,
                  ConstMatrix keys, const float* values_t, const float* log_sum,
                  ConstMatrix grad_out, float factor,
                  const HeadGradients& grads, float* scratch);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_ATTENTION_CORE_H_
