// Expands a sweep's specification into its runs and the early stages that they
// share.
#ifndef COMERA_PROTO_SWEEP_PLAN_H_
#define COMERA_PROTO_SWEEP_PLAN_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "proto/job_validation.h"
#include "proto/search_portfolio.h"

namespace comera {

// The limit on the runs of a sweep.
inline constexpr int kMaxSweepRuns = 512;

// The runs of a sweep, and the early stages that several of them share.
struct SweepPlan {
  struct Run {
    // The values that distinguish the run: "seed=2 ratio=0.5".
    std::string label;
    // The specification of the run, with its defaults. If the run has a stage,
    // the stage's result is still missing from it.
    v1::JobSpec spec;
    // The index into `stages`, or -1.
    int stage = -1;
  };
  struct Stage {
    // The specification of a job that ends with its early stage.
    v1::JobSpec spec;
    // The indices of the runs that continue it.
    std::vector<int> runs;
  };
  std::vector<Run> runs;
  std::vector<Stage> stages;
};

// A pure function of the specification: it gives the same runs in the same
// order every time. Those of a search without a list are the candidates that it
// would have without any finished jobs. Violations name fields as in the file:
// `grid.fields[0].values[1]`, `job.model.layers` if all runs are affected,
// `runs[3].objective.late` if some are; the plan is then empty. Never fails,
// whatever the specification holds.
SweepPlan PlanSweep(const v1::SweepSpec& spec,
                    std::vector<FieldViolation>* violations);

// How many jobs of a plan compete: its stages, and the runs that have none.
int CountEntrants(const SweepPlan& plan);

// Returns `spec` with the candidates of its search as its list, learned from
// `history`; other sweeps, and searches that come with a list, stay as they
// are. `from_history`, unless null, gets how many of the candidates were
// learned.
v1::SweepSpec WithCandidates(v1::SweepSpec spec,
                             const std::vector<FinishedRun>& history,
                             int* from_history);

// Returns `spec` with its defaults filled in.
v1::SweepSpec WithSweepDefaults(v1::SweepSpec spec);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_PLAN_H_
