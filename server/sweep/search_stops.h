// Stops the candidates of a search that cannot become its result any more,
// whatever they would still learn.
#ifndef COMERA_SERVER_SWEEP_SEARCH_STOPS_H_
#define COMERA_SERVER_SWEEP_SEARCH_STOPS_H_

#include "proto/sweep/sweep_plan.h"
#include "server/sweep/search_ledger.h"
#include "server/sweep/sweep_record.pb.h"

namespace comera::server {

// Each function writes the reason into the record (SweepChild.dominated). Those
// that stop runs return whether they stopped any.

// Stops what turns out to be above the target size.
bool StopTooLarge(const SearchLedger& ledger, SweepRecord* record);
// Stops what can no longer be the smallest model that meets the quality, also
// before it has begun, where its specification tells its size.
bool StopLarger(const SearchLedger& ledger, const SweepPlan& plan,
                SweepRecord* record);
// Stops runs that would shrink the model of a shared early stage to less than a
// run that has ended and missed the quality.
bool StopMoreShrunk(const SearchLedger& ledger, const SweepPlan& plan,
                    SweepRecord* record);
// Whether a run has met the targets.
bool HasMet(const SearchLedger& ledger, const SweepRecord& record);
// Stops early stages none of whose runs goes on.
void StopIdleStages(const SweepPlan& plan, SweepRecord* record);

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SEARCH_STOPS_H_
