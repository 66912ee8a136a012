// Candidates of a search that finished jobs suggest.
#ifndef COMERA_PROTO_SWEEP_SEARCH_HISTORY_H_
#define COMERA_PROTO_SWEEP_SEARCH_HISTORY_H_

#include <cstdint>
#include <vector>

#include "comera/v1/job.pb.h"
#include "proto/sweep/search_candidate.h"

namespace comera {

// A finished job of the same data and family, from which a search learns.
struct FinishedRun {
  v1::JobSpec spec;
  double validation_loss = 0;
  int64_t size_parameters = 0;
};

// Returns the configurations on the front of the finished jobs, the one nearest
// to the targets of `job` first. `own_rates`: the search names an optimiser or
// learning rates, which then stand.
std::vector<SearchCandidate> LearnedCandidates(
    const v1::JobSpec& job, bool own_rates,
    const std::vector<v1::CompressionSpec::Method>& methods,
    const std::vector<FinishedRun>& history);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_HISTORY_H_
