// What a sweep's specification means: its runs, and the early stages that they
// share.
#ifndef COMERA_PROTO_SWEEP_PLAN_H_
#define COMERA_PROTO_SWEEP_PLAN_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "proto/job_validation.h"

namespace comera {

// At most so many runs in a sweep.
inline constexpr int kMaxSweepRuns = 512;

struct SweepPlan {
  struct Run {
    // What sets it apart: "seed=2 ratio=0.5".
    std::string label;
    // The whole run, with its defaults. Where it has a stage, what it is to
    // start from is not known yet.
    v1::JobSpec spec;
    // Index into `stages`, or -1.
    int stage = -1;
  };
  struct Stage {
    // Ends with its early stage.
    v1::JobSpec spec;
    // Runs that continue it.
    std::vector<int> runs;
  };
  std::vector<Run> runs;
  std::vector<Stage> stages;
};

// A function of the specification alone: the same runs in the same order every
// time. What is wrong goes to `violations`, with fields as in the file:
// `grid.fields[0].values[1]`, `job.model.layers` for what is wrong in all runs,
// `runs[3].objective.late` for what is wrong in some; the plan is then empty.
// Never fails, whatever the specification holds.
SweepPlan PlanSweep(const v1::SweepSpec& spec,
                    std::vector<FieldViolation>* violations);

// With defaults filled in.
v1::SweepSpec WithSweepDefaults(v1::SweepSpec spec);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_PLAN_H_
