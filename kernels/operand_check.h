// What whole operations check of their operands, the same in every backend
// that computes: shapes and memory, not the values in it. InvalidArgument as in
// shape_check.h.
#ifndef COMERA_KERNELS_OPERAND_CHECK_H_
#define COMERA_KERNELS_OPERAND_CHECK_H_

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace comera::kernels {

absl::Status CheckResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                    ConstMatrix residual, ConstVector gamma,
                                    ConstVector beta, ConstMatrix normalised,
                                    ConstVector inverse_deviation,
                                    ConstMatrix y);
absl::Status CheckResidualLayerNormBackward(
    const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
    ConstVector inverse_deviation, ConstVector gamma, ConstMatrix grad_x,
    ConstMatrix grad_residual, ConstVector grad_gamma, ConstVector grad_beta);
absl::Status CheckLayerNormOutput(const DropoutKey& key, ConstMatrix normalised,
                                  ConstVector gamma, ConstVector beta,
                                  ConstMatrix y);

// The three below check all but the workspace, whose size is the backend's.
absl::Status CheckExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                                  ConstMatrix b, ConstMatrix residual,
                                  ConstVector gamma, ConstVector beta,
                                  ConstMatrix normalised,
                                  ConstVector inverse_deviation, ConstMatrix y);
absl::Status CheckExpandLayerNormBackward(
    const DropoutKey& key, ConstMatrix t, ConstMatrix b, ConstMatrix grad_y,
    ConstMatrix normalised, ConstVector inverse_deviation, ConstVector gamma,
    ConstMatrix grad_residual, ConstMatrix grad_t, ConstMatrix grad_b,
    ConstVector grad_gamma, ConstVector grad_beta);
absl::Status CheckProjectBackward(ConstMatrix x, ConstVector gamma,
                                  ConstVector beta, ConstMatrix grad_t,
                                  ConstMatrix a, ConstMatrix grad_a,
                                  ConstMatrix grad_x);

absl::Status CheckRmsNorm(ConstMatrix x, ConstVector gamma,
                          ConstMatrix normalised, ConstVector inverse_deviation,
                          ConstMatrix y);
absl::Status CheckRmsNormBackward(ConstMatrix grad_y, ConstMatrix normalised,
                                  ConstVector inverse_deviation,
                                  ConstVector gamma, ConstMatrix grad_x,
                                  ConstVector grad_gamma);
// Also refuses functions whose slope is made of their value.
absl::Status CheckGatedBackward(Activation f, ConstMatrix gate, ConstMatrix up,
                                ConstMatrix grad_y, ConstMatrix grad_gate,
                                ConstMatrix grad_up);
absl::Status CheckRotate(int64_t head_width, float theta,
                         ConstIndices positions, ConstMatrix x);
// Operands of the shape of `first`, which may have any.
using NamedMatrix = std::pair<const char*, ConstMatrix>;
absl::Status CheckSameShape(const char* op, NamedMatrix first,
                            std::initializer_list<NamedMatrix> others);

// `queries`: all operands of (tokens, heads * head_width); `keys`: those of
// (tokens, key_heads() * head_width).
absl::Status CheckAttentionOperands(const char* op, const AttentionShape& shape,
                                    const DropoutKey& key, ConstIndices offsets,
                                    std::initializer_list<NamedMatrix> queries,
                                    std::initializer_list<NamedMatrix> keys,
                                    const float* log_sum,
                                    const void* workspace);

// Checks everything of CachedAttention but what `first` and `count` hold.
absl::Status CheckCachedAttention(const CachedAttentionShape& shape,
                                  ConstIndices first, ConstIndices count,
                                  int64_t most, ConstMatrix q, ConstMatrix keys,
                                  ConstMatrix values, ConstMatrix out);

// `out` may be its gradient.
absl::Status CheckInteraction(const char* op, int64_t vectors, ConstMatrix z,
                              ConstMatrix out);

// grad_logits may be null.
absl::Status CheckCrossEntropy(const char* op, ConstMatrix logits,
                               ConstIndices labels, ConstMatrix grad_logits,
                               const float* totals);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_OPERAND_CHECK_H_
