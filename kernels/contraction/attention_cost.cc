// Counts the work of attention with and without its projections.
#include "kernels/contraction/attention_cost.h"

namespace comera::kernels {

double KeysOfAQuery(const AttentionShape& s) {
  const auto length = static_cast<double>(s.max_length);
  return s.causal ? (length + 1) / 2 : length;
}

AttentionCost OrdinaryAttentionCost(const RankSpaceAttentionShape& s) {
  const double head_width = static_cast<double>(s.attention.head_width);
  const double width = static_cast<double>(s.attention.heads) * head_width;
  const double key_width =
      static_cast<double>(s.attention.key_heads()) * head_width;
  const double keys = KeysOfAQuery(s.attention);
  const auto output = static_cast<double>(s.output_rank);
  // T~ B~ of queries, keys and values.
  const double expand =
      static_cast<double>(s.query_rank + 1) * width +
      static_cast<double>(s.key_rank + s.value_rank + 2) * key_width;
  AttentionCost cost;
  // Scores and their sum of values; context times A.
  cost.forward = expand + 2 * keys * width + width * output;
  // Again Q, K, V; scores and the gradients of probabilities, values, queries,
  // keys; gradients of context and A; gradients of B~ and of T.
  cost.backward = expand + 5 * keys * width + 2 * width * output + 2 * expand;
  return cost;
}

AttentionCost RankSpaceAttentionCost(const RankSpaceAttentionShape& s) {
  const auto heads = static_cast<double>(s.attention.heads);
  const auto length = static_cast<double>(s.attention.max_length);
  const auto key = static_cast<double>(s.key_rank + 1);
  const auto output = static_cast<double>(s.output_rank);
  const double queries = static_cast<double>(s.query_rank + 1) * key;
  const double values = static_cast<double>(s.value_rank + 1) * output;
  AttentionCost cost;
  // t~q C and t~v E; scores and their sum of values.
  cost.forward = heads * (queries + values + length * (key + output));
  // Both factors again; scores, gradients of probabilities and values, of
  // queries and keys; from those the gradients of t~q, C, t~v and E.
  cost.backward =
      heads * (3 * (queries + values) + length * (3 * key + 2 * output));
  return cost;
}

bool RankSpaceAttentionPays(const RankSpaceAttentionShape& s) {
  if (s.attention.causal || s.attention.key_heads() != s.attention.heads) {
    return false;
  }
  return RankSpaceAttentionCost(s).total() < OrdinaryAttentionCost(s).total();
}

}  // namespace comera::kernels
