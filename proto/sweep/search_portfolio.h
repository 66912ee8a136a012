// Chooses the candidates of a search (`compression.method: auto`).
#ifndef COMERA_PROTO_SWEEP_SEARCH_PORTFOLIO_H_
#define COMERA_PROTO_SWEEP_SEARCH_PORTFOLIO_H_

#include <vector>

#include "comera/v1/sweep_service.pb.h"
#include "proto/sweep/search_history.h"

namespace comera {

inline constexpr int kDefaultCandidates = 12;
inline constexpr int kMaxCandidates = 32;

// Candidates for the search, the most promising first: what `history` found
// best, then methods, widths and ranks that can meet the target size by the
// prediction of model_size.h. At most search.candidates. `from_history`, unless
// null, gets how many of them come from `history`. A pure function.
std::vector<v1::SweepPoint> SearchPortfolio(
    const v1::SweepSpec& spec, const std::vector<FinishedRun>& history,
    int* from_history);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_PORTFOLIO_H_
