#ifndef COMERA_WORKER_SESSION_NCCL_ENVIRONMENT_H_
#define COMERA_WORKER_SESSION_NCCL_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera::worker {

// What a member on a GPU gets for NCCL, as KEY=VALUE. A variable that the
// worker's own environment `own` sets is left to it.
//
// NCCL_NVLS_ENABLE=0, unless the job allows sums that vary: those in the NVLink
// switch do from call to call (NCCL issue 1497), while a repeated job must give
// the same numbers. NCCL_GRAPH_REGISTER=0: each member records and replays its
// steps when its own batches allow it, so that memory of some members but not of
// others would be registered for one sum, which NCCL leaves undefined.
std::vector<std::string> NcclEnvironment(const v1::TrainingSpec& training,
                                         const char* const* own);

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_NCCL_ENVIRONMENT_H_
