#ifndef COMERA_WORKER_TRAINER_GENERATE_ATTENTION_LAYERS_H_
#define COMERA_WORKER_TRAINER_GENERATE_ATTENTION_LAYERS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/generate/folded_linear.h"
#include "worker/trainer/generate/model_parts.h"

namespace comera::trainer {

// The projections around the attention of a block, in the form in which keys
// and values take the least memory. What is cached of a token is a row of
// key_columns() and one of value_columns().
//
// With values V = T B_v + b_v of rank r, where T = f(X A_v), and an output
// projection W_o with bias b_o, head h of the attention P_h gives
//   P_h V_h W_o,h = (P_h T) (B_v,h W_o,h) + b_v,h W_o,h,
// as the rows of P_h sum to 1. So T may be cached in place of V, one row of r
// for all heads, and the products B_v,h W_o,h stand in place of W_o. Likewise,
// where queries and keys are not rotated,
//   Q_h K_h^T = (Q_h B_k,h^T) T_k^T + Q_h b_k,h^T,
// whose last term is the same for all keys and leaves the softmax as it is.
struct AttentionLayers {
  FoldedLinear query;   // hidden to heads * shape.key_width
  FoldedLinear key;     // hidden to key_columns()
  FoldedLinear value;   // hidden to value_columns()
  FoldedLinear output;  // heads * shape.value_width to hidden
  kernels::CachedAttentionShape shape;
  // Queries and keys are turned by their positions.
  bool rotated = false;

  int64_t key_columns() const { return shape.key_heads * shape.key_width; }
  int64_t value_columns() const {
    return shape.value_heads * shape.value_width;
  }
};

// The layers of block `layer`, whose output projection is not pruned. A rank
// space is chosen where it is narrower than the heads and the weights grow no
// larger by it. ResourceExhausted: does not fit.
absl::StatusOr<AttentionLayers> FoldAttention(const ModelParts& parts,
                                              int64_t layer);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_ATTENTION_LAYERS_H_
