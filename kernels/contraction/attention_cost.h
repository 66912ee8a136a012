// What the two ways of attention between rank vectors cost, and the cheaper.
#ifndef COMERA_KERNELS_CONTRACTION_ATTENTION_COST_H_
#define COMERA_KERNELS_CONTRACTION_ATTENTION_COST_H_

#include "kernels/backend.h"

namespace comera::kernels {

// Multiply-adds of one token in a sequence of max_length. What both ways have
// in common, X A of the projections and T~ B~ of the output, is in neither.
struct AttentionCost {
  double forward = 0;
  double backward = 0;
  double total() const { return forward + backward; }
};

// Keys that a query sees, on average over a sequence of max_length.
double KeysOfAQuery(const AttentionShape& shape);

// Queries, keys and values formed from rank space (and again in backward),
// Backend::Attention, and the context into the output's rank space.
AttentionCost OrdinaryAttentionCost(const RankSpaceAttentionShape& shape);
// Backend::RankSpaceAttention.
AttentionCost RankSpaceAttentionCost(const RankSpaceAttentionShape& shape);

// Whether the latter is less. With equal ranks: below the width of a head in
// long sequences, where scores are everything, and up to about twice that in
// short ones, where forming queries, keys and values is. Never for causal
// attention or fewer heads of keys, which have no form in rank space.
bool RankSpaceAttentionPays(const RankSpaceAttentionShape& shape);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CONTRACTION_ATTENTION_COST_H_
