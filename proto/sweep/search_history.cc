// Finds the front of the finished jobs.
#include "proto/sweep/search_history.h"

#include <algorithm>

#include "proto/job_defaults.h"
#include "proto/sweep/search_target.h"

namespace comera {
namespace {

using Method = v1::CompressionSpec;

constexpr int kMaxFromHistory = 4;

int64_t RankOf(const v1::JobSpec& spec) {
  const v1::CompressionSpec& c = spec.compression();
  switch (c.method()) {
    case Method::COMERA: {
      const v1::LayerCompression& layer =
          spec.model().family() == v1::ModelSpec::DLRM ? c.table()
          : c.attention().dense()                      ? c.ffn_up()
                                                       : c.attention();
      return layer.ranks_size() == 1 ? layer.ranks(0) : 0;
    }
    case Method::COLA:
      return c.cola().rank();
    default:
      return 0;
  }
}

// The rates of a finished job.
SearchRates RatesOf(const v1::JobSpec& spec) {
  const Method::Method method = spec.compression().method();
  const v1::OptimizerSpec ran = WithDefaults(spec).optimizer();
  const v1::OptimizerSpec usual = UsualOptimizer(method, spec);
  const bool has_cores =
      method == Method::COMERA || ran.kind() == v1::OptimizerSpec::MUON;
  if (ran.kind() == usual.kind() &&
      ran.learning_rate_other() == usual.learning_rate_other() &&
      ran.learning_rate_tables() == usual.learning_rate_tables() &&
      (!has_cores ||
       ran.learning_rate_cores() == usual.learning_rate_cores())) {
    return {};
  }
  return {ran.kind(), ran.learning_rate_cores(), ran.learning_rate_other(),
          ran.learning_rate_tables()};
}

}  // namespace

std::vector<SearchCandidate> LearnedCandidates(
    const v1::JobSpec& job, bool own_rates,
    const std::vector<Method::Method>& methods,
    const std::vector<FinishedRun>& history) {
  const SearchTarget target = SearchTargetOf(job.objective().late());
  std::vector<const FinishedRun*> front;
  for (const FinishedRun& run : history) {
    if (run.size_parameters <= 0 || !(run.validation_loss > 0)) continue;
    if (!target.MeetsSize(run.size_parameters)) continue;
    if (std::find(methods.begin(), methods.end(),
                  run.spec.compression().method()) == methods.end()) {
      continue;
    }
    const bool beaten = std::any_of(
        history.begin(), history.end(), [&](const FinishedRun& other) {
          return other.size_parameters > 0 && other.validation_loss > 0 &&
                 other.size_parameters <= run.size_parameters &&
                 other.validation_loss <= run.validation_loss &&
                 (other.size_parameters < run.size_parameters ||
                  other.validation_loss < run.validation_loss);
        });
    if (!beaten) front.push_back(&run);
  }
  const bool by_loss =
      target.has_quality && target.metric == v1::LateStage::kTargetLoss;
  std::stable_sort(
      front.begin(), front.end(),
      [&](const FinishedRun* a, const FinishedRun* b) {
        const double a_gap =
            by_loss ? target.Shortfall(a->validation_loss) : a->validation_loss;
        const double b_gap =
            by_loss ? target.Shortfall(b->validation_loss) : b->validation_loss;
        if (a_gap != b_gap) return a_gap < b_gap;
        return a->size_parameters < b->size_parameters;
      });
  std::vector<SearchCandidate> learned;
  for (const FinishedRun* run : front) {
    if (learned.size() == kMaxFromHistory) break;
    SearchCandidate candidate;
    candidate.method = run->spec.compression().method();
    candidate.width = run->spec.model().hidden();
    candidate.rank = RankOf(run->spec);
    candidate.tied = run->spec.model().tie_output();
    if (candidate.method == Method::COMERA && LeavesDenseTokens(job)) {
      candidate.dense_tokens =
          run->spec.compression().embedding().dense_tokens();
    }
    if (candidate.method == Method::COMERA && LeavesAttention(job)) {
      candidate.dense_attention = run->spec.compression().attention().dense();
    }
    if (!own_rates) candidate.rates = RatesOf(run->spec);
    if (candidate.method == Method::COMERA && target.parameters == 0) {
      candidate.ratio = kShrinkRatios[0];
    }
    learned.push_back(candidate);
  }
  return learned;
}

}  // namespace comera
