#ifndef COMERA_TESTS_E2E_CHAOS_CHECKER_H_
#define COMERA_TESTS_E2E_CHAOS_CHECKER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/e2e/chaos/evidence.h"

namespace comera::e2e {

// The losses of one specification's undisturbed run.
struct Reference {
  std::map<int64_t, double> loss_of_step;
  double validation_loss = 0;
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
};

// The references by display_name, which distinguishes specifications.
using References = std::map<std::string, Reference>;

// Reads the losses of the jobs in `evidence`, which ran undisturbed.
// FailedPrecondition: one did not succeed in its first attempt.
absl::StatusOr<References> MakeReferences(const Evidence& evidence);

// One sentence per violation of what the service promises, none if all holds:
//   accepted     every accepted job and sweep exists, once, unless a client
//                deleted it, and no other job
//   terminal     every job and sweep is in a final state, which came once, at
//                the end, and which no client saw to change, unless one asked
//                to go on with a job that had failed or was cancelled
//   succeeded    every job and sweep succeeded, but for jobs that a client
//                cancelled: nothing that was done to it was its fault
//   once         in an attempt training began once, on each member once, and no
//                step was trained twice; attempts and event numbers only rise
//   monotonic    no client saw an attempt or a number of incidents fall
//   progress     steps are given up aloud (ProgressCheck)
//   states       an attempt goes on from the state that it was told of, and
//   from
//                none that was given up (CheckStates)
//   leaders      no request that was sent once a newer leader had answered is
//                answered by an older one
//   budgets      retries are charged as the events tell (BudgetCheck), and no
//                time limit ended a job before a client's own clock allows it
//   losses       training loss of every step and final validation loss are
//                those of the undisturbed run, to the bit (gangs of variable
//                size and runs of sweeps aside)
//   models       every model file is whole; a job that succeeded has one
//   kept         a pinned model is there, and pinned; what was deleted is gone
//   orphans      no process is left
std::vector<std::string> Check(const Evidence& evidence,
                               const References& references);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_CHECKER_H_
