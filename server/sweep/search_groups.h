// Divides the candidates of a search into groups by size.
#ifndef COMERA_SERVER_SWEEP_SEARCH_GROUPS_H_
#define COMERA_SERVER_SWEEP_SEARCH_GROUPS_H_

#include <vector>

#include "proto/sweep/sweep_plan.h"
#include "server/sweep/search_ledger.h"

namespace comera::server {

// The candidates of a search, in groups that are tried one after another.
// Where the smallest model that meets a quality is looked for, the small
// candidates go first: the larger ones are needless as soon as one of them
// meets it.
struct SearchGroups {
  // From the smallest candidates to the largest; none is empty.
  std::vector<std::vector<SearchChild>> groups;
};

// At most three groups of at least two candidates, as even as can be. Sizes are
// those of the plan. It does not tell those of tensor-train models, which come
// first, by width and rank: hardly anything is smaller. A pure function.
SearchGroups GroupBySize(const SweepPlan& plan);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SEARCH_GROUPS_H_
