#ifndef COMERA_PROTO_JOB_TARGETS_H_
#define COMERA_PROTO_JOB_TARGETS_H_

#include <cstdint>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera {

// The limit on targets in a list, each of which leaves a model behind.
inline constexpr int kMaxTargets = 16;

// The targets of a late stage in order: its list, or else its single target.
std::vector<v1::Target> TargetsOf(const v1::LateStage& late);

// The optimiser steps of a job that uses its whole budget.
int64_t PlannedSteps(const v1::ObjectiveSpec& objective);

}  // namespace comera

#endif  // COMERA_PROTO_JOB_TARGETS_H_
