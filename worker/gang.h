#ifndef COMERA_WORKER_GANG_H_
#define COMERA_WORKER_GANG_H_

#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// Whether some of the gang's ranks run on other workers.
inline bool SpansWorkers(const v1::RankAssignment& assignment) {
  return assignment.local_world_size() < assignment.world_size();
}

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_H_
