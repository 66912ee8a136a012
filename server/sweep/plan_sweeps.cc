// Plans sweeps before the engine takes them over.
#include <utility>

#include "proto/sweep/search_job.h"
#include "server/sweep/sweep_engine.h"

namespace comera::server {
namespace {

using Candidates = google::protobuf::RepeatedPtrField<v1::SweepPoint>;

// The specification with the candidates of its search as its list.
v1::SweepSpec WithList(v1::SweepSpec spec, const Candidates& candidates) {
  *spec.mutable_list() = candidates;
  return spec;
}

}  // namespace

PlannedSweep PlanNewSweep(const v1::SweepSpec& spec,
                          const SearchContext& context,
                          std::vector<FieldViolation>* violations) {
  PlannedSweep planned;
  planned.plan = PlanSweep(spec, violations);
  if (!violations->empty()) return PlannedSweep();
  planned.spec = WithSweepDefaults(spec);
  planned.parallel = context.parallel;
  if (!IsSearch(spec.job())) return planned;
  planned.candidates =
      WithCandidates(planned.spec, context.history, &planned.learned).list();
  planned.plan =
      PlanSweep(WithList(planned.spec, planned.candidates), violations);
  return planned;
}

std::vector<StoredSweep> PlanStoredSweeps(std::vector<SweepRecord> records) {
  std::vector<StoredSweep> sweeps;
  for (SweepRecord& record : records) {
    StoredSweep stored;
    stored.record = std::move(record);
    const v1::Sweep& sweep = stored.record.sweep();
    if (!IsFinal(sweep.state())) {
      std::vector<FieldViolation> violations;
      stored.plan = PlanSweep(
          stored.record.has_search()
              ? WithList(sweep.spec(), stored.record.search().candidates())
              : sweep.spec(),
          &violations, SweepLimits::None());
    }
    sweeps.push_back(std::move(stored));
  }
  return sweeps;
}

}  // namespace comera::server
