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

// Divides `budget` over the rounds of so many candidates. A budget of time by
// the clock pays for `parallel` jobs at once, which run side by side; for one
// that all jobs add up to, `parallel` is 1.
SearchRounds PlanSearchRounds(int candidates, double budget, int parallel = 1);

// Returns what each of the `live` candidates may spend in the next round,
// beyond what it has spent, if this amount doubles in every later round and all
// rounds together spend `left`. `parallel` as above.
double NextSearchShare(int live, double left, int parallel = 1);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_ROUNDS_H_
