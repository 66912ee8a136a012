#ifndef COMERA_WORKER_GANG_GANG_H_
#define COMERA_WORKER_GANG_GANG_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// Whether some of the gang's ranks run on other workers.
inline bool SpansWorkers(const v1::RankAssignment& assignment) {
  return assignment.local_world_size() < assignment.world_size();
}

// As log lines name it.
inline std::string DescribeRank(const v1::RankKey& rank) {
  return absl::StrCat("job=", rank.job(), " epoch=", rank.epoch(),
                      " rank=", rank.rank());
}

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_GANG_H_
