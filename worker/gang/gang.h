#ifndef COMERA_WORKER_GANG_GANG_H_
#define COMERA_WORKER_GANG_GANG_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// Whether some of the gang's members run on other workers.
inline bool SpansWorkers(const v1::MemberAssignment& assignment) {
  return assignment.local_world_size() < assignment.world_size();
}

// The words by which log lines name the member.
inline std::string DescribeMember(const v1::MemberKey& rank) {
  return absl::StrCat("job=", rank.job(), " attempt=", rank.attempt(),
                      " rank=", rank.rank());
}

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_GANG_H_
