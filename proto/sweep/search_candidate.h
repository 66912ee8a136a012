// A candidate of a search, and what it makes of the search's job.
#ifndef COMERA_PROTO_SWEEP_SEARCH_CANDIDATE_H_
#define COMERA_PROTO_SWEEP_SEARCH_CANDIDATE_H_

#include <cstdint>

#include "comera/v1/job.pb.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera {

// Shares of its early size at which a rank-adaptive model is tried where the
// job names no size.
inline constexpr double kShrinkRatios[] = {0.5, 0.25};

// An optimiser and its learning rates; KIND_UNSPECIFIED: the defaults of both.
struct SearchRates {
  v1::OptimizerSpec::Kind kind = v1::OptimizerSpec::KIND_UNSPECIFIED;
  double cores = 0;
  double other = 0;
  // learning_rate_tables; 0: its default.
  double tables = 0;

  bool are_defaults() const {
    return kind == v1::OptimizerSpec::KIND_UNSPECIFIED;
  }
};

// What distinguishes a candidate.
struct SearchCandidate {
  v1::CompressionSpec::Method method = v1::CompressionSpec::DENSE;
  // Width of the residual stream; 0: the job's.
  int64_t width = 0;
  int64_t rank = 0;
  double ratio = 0;
  bool tied = false;
  // The field of compression.embedding; 0: the job's own value.
  int64_t dense_tokens = 0;
  // Whether attention has dense layers beside tensor trains in the rest.
  bool dense_attention = false;
  SearchRates rates;
};

// Returns the candidate as a change of `job`, with a label.
v1::SweepPoint ToPoint(const SearchCandidate& candidate,
                       const v1::JobSpec& job);

// Returns the candidate's job, with its defaults, as far as its size goes;
// `job` is without defaults.
v1::JobSpec SizedJob(const SearchCandidate& candidate, const v1::JobSpec& job);

// Returns the optimiser of a job of this method that names neither kind nor
// rates.
v1::OptimizerSpec UsualOptimizer(v1::CompressionSpec::Method method,
                                 v1::JobSpec job);

// Whether the job leaves it to the search which tokens have dense rows, and
// whether attention is dense.
bool LeavesDenseTokens(const v1::JobSpec& job);
bool LeavesAttention(const v1::JobSpec& job);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_CANDIDATE_H_
