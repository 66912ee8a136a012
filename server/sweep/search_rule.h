// The rules of a search: the candidates that go on after a round, and the model
// that it ends with.
#ifndef COMERA_SERVER_SWEEP_SEARCH_RULE_H_
#define COMERA_SERVER_SWEEP_SEARCH_RULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/sweep/search_target.h"

namespace comera::server {

// A candidate that has not ended, as the rule sees it.
struct SearchEntrant {
  // The caller's number for it, and its name in words.
  int id = 0;
  std::string name;
  // Whether a validation has been seen. The figures below need one.
  bool measured = false;
  // The number of parameters that its model will have in the end, and has now.
  // Where they differ, `quality` is that of the present, larger model. A
  // candidate therefore beats another only by its `present` size, and is beaten
  // only if its final `size` is no smaller.
  int64_t size = 0;
  int64_t present = 0;
  // The best value of the target's metric so far, and the one to expect at the
  // end of the training: `quality` and the improvement over the second half of
  // what the candidate has spent, continued as it has become less from one
  // doubling of the training to the next.
  double quality = 0;
  double hope = 0;
  // The number of validations at the present size.
  int validations = 0;
  // Whether learning is not slowing down yet, or has not begun (IsSpeedingUp in
  // search_ledger.h), so that `hope` does not foretell the end.
  bool speeding_up = false;
  // Whether models of its kind learn slowly at first and well later: language
  // models of tensor trains with dense attention.
  bool learns_late = false;
  // The lowest loss at the present size: it tells candidates apart whose metric
  // is still that of guessing.
  double loss = 0;
};

// A candidate that is to stop, and why, in one sentence.
struct SearchStop {
  int id = 0;
  std::string reason;
};

// Stops all but `keep` of the candidates, in this order:
//  - those without any validation;
//  - those that, by `hope`, will miss the quality and are not `speeding_up`:
//  first the ones that most
//    others beat in the metric, in `hope` and in the size (equal metrics are
//    compared by the loss), then the ones farthest from the quality;
//  - the others, the largest first.
// Without a target quality the beaten ones go before the others, and the metric
// takes the place of the distance; and one place, if there are two, is for the
// best of those that learn late.
// A pure function; ties go by the order given.
std::vector<SearchStop> StopWorse(const SearchTarget& target,
                                  const std::vector<SearchEntrant>& entrants,
                                  size_t keep);

// A candidate that has ended with a model.
struct SearchResult {
  int id = 0;
  int64_t size = 0;
  double quality = 0;
  // With the confidence that the job asks for.
  bool meets_quality = false;
};

// The result of a search.
struct SearchChoice {
  int id = 0;
  // Whether it meets all that was asked for.
  bool met = false;
};

// The smallest model that meets both targets; where only a size was asked for,
// the best one within it. Where none meets them: the one that misses the
// quality by least within the size, or else the smallest. Nothing if there are
// no results.
std::optional<SearchChoice> ChooseModel(
    const SearchTarget& target, const std::vector<SearchResult>& results);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SEARCH_RULE_H_
