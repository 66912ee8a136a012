// Draws the values of a sweep's random runs.
#ifndef COMERA_PROTO_SWEEP_RANDOM_RUNS_H_
#define COMERA_PROTO_SWEEP_RANDOM_RUNS_H_

#include <string>

#include "comera/v1/sweep_service.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Adds what is wrong with the number of runs and the ranges; returns whether
// nothing is.
bool CheckRandomRuns(const v1::RandomRuns& random, SpecChecker& check);

// Returns the value that the run draws for the field, as a job file would have
// it. The same on all machines for the same seed, run and field. `random` must
// have passed CheckRandomRuns.
std::string DrawValue(const v1::RandomRuns& random, int run, int field);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_RANDOM_RUNS_H_
