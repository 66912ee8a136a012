#ifndef COMERA_SERVER_COORDINATOR_SYNCHRONIZE_PROGRESS_REPORTS_H_
#define COMERA_SERVER_COORDINATOR_SYNCHRONIZE_PROGRESS_REPORTS_H_

#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/operation/operation.h"

namespace comera::server {

// Applies the progress reports in a worker's request to their jobs, each once,
// and acknowledges them. The reports of older attempts change nothing and are
// acknowledged too, so that the worker may drop them.
void ApplyProgressReports(const v1::SynchronizeRequest& request, JobTable* jobs,
                          v1::SynchronizeResponse* response, Operation* op);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_SYNCHRONIZE_PROGRESS_REPORTS_H_
