// Which events of a job are kept for ever, and which samples are thinned.
#ifndef COMERA_SERVER_EVENT_RETENTION_H_
#define COMERA_SERVER_EVENT_RETENTION_H_

#include <cstdint>
#include <vector>

#include "comera/v1/progress.pb.h"

namespace comera::server {

// Whether the event is one sample of a series (metrics, ranks, Pareto points,
// checkpoints), so that it may be dropped when there are many.
bool IsSample(const v1::JobEvent& event);

// Stored number of the series; 0 for events that are kept for ever.
int SampleSeries(const v1::JobEvent& event);

// Of a series' sequence numbers (ascending), those to delete so that about half
// remain: every second one, but never the first or the last.
std::vector<int64_t> ThinSeries(const std::vector<int64_t>& sequences);

}  // namespace comera::server

#endif  // COMERA_SERVER_EVENT_RETENTION_H_
