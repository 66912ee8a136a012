// Expands a sweep's grid, list or random runs into changes of its base job.
#ifndef COMERA_PROTO_SWEEP_SWEEP_RUNS_H_
#define COMERA_PROTO_SWEEP_SWEEP_RUNS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "comera/v1/sweep_service.pb.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// A point of the sweep, and its origin in the specification.
struct SweepChange {
  v1::SweepPoint point;
  // For each entry of point.fields, its origin: "grid.fields[0].values[1]",
  // "list[2].fields[0]".
  std::vector<std::string> field_sources;
};

// Returns the number of points of the list, the grid or the random runs,
// duplicates included; 0 after a violation. `max_bytes` is
// SweepLimits::total_bytes.
int CountSweepPoints(const v1::SweepSpec& spec, size_t max_bytes,
                     SpecChecker& check);

// Returns that point: of the list, of the random runs, or of the grid, whose
// last axis changes first. `index` must be below CountSweepPoints.
SweepChange SweepPointAt(const v1::SweepSpec& spec, int index);

// Returns the point's own label or, e.g., "method=comera seed=2 loss=2.9
// ratio=0.5"; empty for an empty point.
std::string SweepLabel(const v1::SweepPoint& point);

// Applies the point to the base; fields that do not fit go to `check`.
void ApplyChange(const SweepChange& change, v1::JobSpec* spec,
                 SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_SWEEP_SWEEP_RUNS_H_
