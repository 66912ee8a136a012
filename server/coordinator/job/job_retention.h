// Finds finished jobs that may be forgotten.
#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_RETENTION_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_RETENTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/job/job_table.h"

namespace comera::server {

// FailedPrecondition: the job has not finished, an unfinished job continues it,
// or it has a model that is kept (kept_models.h).
absl::Status CheckMayBeForgotten(const JobEntry& entry, const JobTable& jobs);

// Names of at most `limit` finished jobs that ended before then, that no
// unfinished job continues, and that have no model that is kept.
std::vector<std::string> FindExpiredJobs(const JobTable& jobs,
                                         absl::Time ended_before, size_t limit);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_RETENTION_H_
