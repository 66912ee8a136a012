// The rule which events of a job are kept for ever, and which samples are
// thinned.
#ifndef COMERA_SERVER_STORE_EVENT_RETENTION_H_
#define COMERA_SERVER_STORE_EVENT_RETENTION_H_

#include <cstdint>
#include <vector>

#include "comera/v1/progress.pb.h"

namespace comera::server {

// Whether the event is one sample of a series (metrics, ranks, Pareto points,
// checkpoints), so that it may be dropped when there are many.
bool IsSample(const v1::JobEvent& event);

// Stored number of the series; 0 for events that are kept for ever.
int SampleSeries(const v1::JobEvent& event);

// The sequence numbers of a series (ascending) to delete so that at most `keep`
// numbers (at least 3) remain. Sequence numbers are cut into buckets whose
// width is the least power of two for which that holds; the first sample of
// each bucket stays, and the last of all. As wide buckets are unions of narrow
// ones, what stays does not depend on how often the series was thinned before,
// and its resolution is the same over the whole run: however long the run, no
// part of it is forgotten.
std::vector<int64_t> ThinSeries(const std::vector<int64_t>& sequences,
                                int keep);

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_EVENT_RETENTION_H_
