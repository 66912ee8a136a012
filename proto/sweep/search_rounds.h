// The rounds of a search, and what its candidates may spend in them.
#ifndef COMERA_PROTO_SWEEP_SEARCH_ROUNDS_H_
#define COMERA_PROTO_SWEEP_SEARCH_ROUNDS_H_

namespace comera {

// The allowances of successive halving: `budget` is spent in rounds, after each
// of which the worse half of the candidates stops and the allowance of the
// others doubles. Allowances are per candidate and cumulative.
struct SearchRounds {
  int rounds = 1;
  double first = 0;  // allowance in the first round
  double last = 0;   // allowance of the candidates that reach the last round
};
// `parallel` jobs run side by side, so that a budget that is a time by the
// clock pays for as many of them at once; 1 for budgets that all jobs add up
// to.
SearchRounds PlanSearchRounds(int candidates, double budget, int parallel = 1);
// What each of the `live` remaining candidates may spend in the next round,
// beyond what it has spent, if this amount doubles in every later round and all
// rounds together spend `left`.
double NextSearchShare(int live, double left, int parallel = 1);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_ROUNDS_H_
