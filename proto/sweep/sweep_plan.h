// Expands a sweep's specification into its runs and the early stages that they
// share.
#ifndef COMERA_PROTO_SWEEP_SWEEP_PLAN_H_
#define COMERA_PROTO_SWEEP_SWEEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "proto/sweep/search_history.h"
#include "proto/validation/job_validation.h"

namespace comera {

// The limit on the runs of a sweep.
inline constexpr int kMaxSweepRuns = 512;

// What the runs of a sweep may have in bytes. A run's specification is kept for
// weeks, so it may have as much as any job's.
struct SweepLimits {
  // The specification of one run, with its defaults.
  size_t run_bytes = 64 << 10;
  // The base job and the values of its axes, once for each run.
  size_t total_bytes = 16 << 20;

  // No limits, as sweeps have that were accepted before.
  static SweepLimits None() {
    return {std::numeric_limits<size_t>::max(),
            std::numeric_limits<size_t>::max()};
  }
};

// The runs of a sweep, and the early stages that several of them share. It
// holds the sweep's specification once, and of a run only what is different in
// it: a sweep of 512 runs takes about as much memory as its file.
struct SweepPlan {
  struct Run {
    // The values that distinguish the run: "seed=2 ratio=0.5"; cut to 256
    // bytes.
    std::string label;
    // The run's place among the points of the grid or list; some points make no
    // run of their own.
    int point = 0;
    // The index into `stages`, or -1.
    int stage = -1;
    // What is asked of the run's specification again and again.
    v1::CompressionSpec::Method method = v1::CompressionSpec::COMERA;
    int64_t early_steps = 0;
    int late_targets = 0;
    double target_ratio = 0;
    // SearchTarget::parameters of its late stage.
    int64_t target_parameters = 0;
  };
  struct Stage {
    // The indices of the runs that continue it.
    std::vector<int> runs;
  };
  std::vector<Run> runs;
  std::vector<Stage> stages;
  // The queues of the runs.
  std::set<std::string> queues;
  // The queues in which some run has a program of the user's own.
  std::set<std::string> program_queues;

  // The specification of the run, with its defaults. If the run has a stage,
  // the stage's result is still missing from it. It is made for each call.
  v1::JobSpec RunSpec(int run) const;
  // The same of a job that ends with its early stage.
  v1::JobSpec StageSpec(int stage) const;

  // The specification that the runs come from: that of the sweep, with the
  // candidates of a search as its list. Null in an empty plan.
  std::shared_ptr<const v1::SweepSpec> source;
  // What each run of a search is planned with; 0: no search.
  int64_t search_steps = 0;
};

// A pure function of the specification: it gives the same runs in the same
// order every time. Those of a search without a list are the candidates that it
// would have without any finished jobs. Violations name fields as in the file:
// `grid.fields[0].values[1]`, `job.model.layers` if all runs are affected,
// `runs[3].objective.late` if some are; the plan is then empty. Never fails,
// whatever the specification holds, and takes no more memory than the limits
// allow: what is beyond them is refused before any run is made.
SweepPlan PlanSweep(const v1::SweepSpec& spec,
                    std::vector<FieldViolation>* violations,
                    const SweepLimits& limits = SweepLimits());

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

#endif  // COMERA_PROTO_SWEEP_SWEEP_PLAN_H_
