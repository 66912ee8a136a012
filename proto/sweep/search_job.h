// The jobs of a search (`compression.method: auto`), and their steps.
#ifndef COMERA_PROTO_SWEEP_SEARCH_JOB_H_
#define COMERA_PROTO_SWEEP_SEARCH_JOB_H_

#include <cstdint>

#include "comera/v1/job.pb.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera {

// Whether the job is one that the service searches for.
bool IsSearch(const v1::JobSpec& job);

// Returns the job that each candidate modifies: method COMERA instead of AUTO,
// no budget, and a late stage that is valid for every method.
v1::JobSpec SearchBaseJob(const v1::SweepSpec& spec);

// Plans `steps` optimiser steps for the run of a search. A method that makes a
// model smaller does half of them, or the share that the job file `given` says,
// in the early stage. The others do all of them in the late stage, which ends
// as soon as the quality is met.
void PlanSearchSteps(const v1::ObjectiveSpec& given, int64_t steps,
                     v1::JobSpec* run);

// Returns the steps that a run of the search is planned with before anything is
// known of its speed: those of the job file, if it gives any; otherwise, with a
// budget in steps, the last round's allowance for that many candidates;
// otherwise a number so large that no run reaches it.
int64_t FirstSearchSteps(const v1::JobSpec& job, int candidates);

// Whether the job file says how many steps a run has.
bool HasOwnSteps(const v1::JobSpec& job);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SEARCH_JOB_H_
