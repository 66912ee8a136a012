// Chooses the candidates of a search (`compression.method: auto`) and turns
// them into jobs.
#ifndef COMERA_PROTO_SEARCH_PORTFOLIO_H_
#define COMERA_PROTO_SEARCH_PORTFOLIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comera/v1/sweep_service.pb.h"
#include "proto/job_validation.h"
#include "proto/spec_checker.h"

namespace comera {

inline constexpr int kDefaultCandidates = 12;
inline constexpr int kMaxCandidates = 32;

// A finished job of the same data and family, from which a search learns.
struct FinishedRun {
  v1::JobSpec spec;
  double validation_loss = 0;
  int64_t size_parameters = 0;
};

// Whether the job is one that the service searches for.
bool IsSearch(const v1::JobSpec& job);

// Checks what a search needs beyond what its runs are checked for. Fields are
// those of SweepSpec.
void CheckSearch(const v1::SweepSpec& spec, SpecChecker& check);

// Candidates for the search, the most promising first: what `history` found
// best, then methods, widths and ranks that can meet the target size by the
// prediction of model_size.h. At most search.candidates. `from_history`, unless
// null, gets how many of them come from `history`. A pure function.
std::vector<v1::SweepPoint> SearchPortfolio(
    const v1::SweepSpec& spec, const std::vector<FinishedRun>& history,
    int* from_history);

// The job that each candidate modifies: method COMERA instead of AUTO, no
// budget, and a late stage that is valid for every method.
v1::JobSpec SearchBaseJob(const v1::SweepSpec& spec);

// Plans `steps` optimiser steps for the run of a search. A method that makes a
// model smaller does half of them, or the share that the job file `given` says,
// in the early stage. The others do all of them in the late stage, which ends
// as soon as the quality is met.
void PlanSearchSteps(const v1::ObjectiveSpec& given, int64_t steps,
                     v1::JobSpec* run);

// Steps that a run of the search is planned with before anything is known of
// its speed: those of the job file, if it gives any; otherwise, with a budget
// in steps, the last round's allowance for that many candidates; otherwise a
// number so large that no run reaches it.
int64_t FirstSearchSteps(const v1::JobSpec& job, int candidates);

// Whether the job file says how many steps a run has.
bool HasOwnSteps(const v1::JobSpec& job);

// The allowances of successive halving: `budget` is spent in rounds, after each
// of which the worse half of the candidates stops and the allowance of the
// others doubles. Allowances are per candidate and cumulative.
struct SearchRounds {
  int rounds = 1;
  double first = 0;  // allowance in the first round
  double last = 0;   // allowance of the candidates that reach the last round
};
// `parallel` jobs run side by side, so that a budget that is a time by the
// clock pays for as many of them at once; 1 for budgets that all jobs add up
// to.
SearchRounds PlanSearchRounds(int candidates, double budget, int parallel = 1);
// What each of the `live` remaining candidates may spend in the next round,
// beyond what it has spent, if this amount doubles in every later round and all
// rounds together spend `left`.
double NextSearchShare(int live, double left, int parallel = 1);

}  // namespace comera

#endif  // COMERA_PROTO_SEARCH_PORTFOLIO_H_
