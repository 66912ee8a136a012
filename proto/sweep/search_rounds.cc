// Divides a budget over the rounds of successive halving.
#include "proto/sweep/search_rounds.h"

#include <algorithm>

namespace comera {
namespace {

// How often in a row `parallel` jobs must run until `live` of them had a turn.
int TurnsOf(int live, int parallel) {
  parallel = std::max(1, parallel);
  return (live + parallel - 1) / parallel;
}

}  // namespace

SearchRounds PlanSearchRounds(int candidates, double budget, int parallel) {
  SearchRounds plan;
  // What all rounds cost, in units of the first round's allowance.
  double cost = 0, allowance = 1, before = 0;
  int live = std::max(1, candidates);
  while (true) {
    cost += TurnsOf(live, parallel) * (allowance - before);
    if (live <= 2) break;
    before = allowance;
    allowance *= 2;
    live = (live + 1) / 2;
    ++plan.rounds;
  }
  plan.first = budget / cost;
  plan.last = plan.first * allowance;
  return plan;
}

double NextSearchShare(int live, double left, int parallel) {
  double cost = 0, share = 1;
  for (live = std::max(1, live);; live = (live + 1) / 2) {
    cost += TurnsOf(live, parallel) * share;
    if (live <= 2) return left / cost;
    share *= 2;
  }
}

}  // namespace comera
