// Finds finished jobs that may be forgotten.
#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_RETENTION_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_RETENTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/job/job_table.h"

namespace comera::server {

// Names of at most `limit` finished jobs that ended before then and that no
// unfinished job continues.
std::vector<std::string> FindExpiredJobs(const JobTable& jobs,
                                         absl::Time ended_before, size_t limit);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_RETENTION_H_
